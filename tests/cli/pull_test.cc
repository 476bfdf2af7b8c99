#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/sparkx_program.h"
#include "core/json.h"
#include "support/hub_home.h"
#include "support/model_hub.h"
#include "support/text.h"

namespace sparkx::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRepo = "owner/mini";

// The program with a hub that has the model of this repository, and with nothing on the machine.
class Pull : public ::testing::Test {
 protected:
  Pull() : home(hub.url()) {
    for (const char* name : {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                             "chat_template.jinja", "model.safetensors", "README.md"}) {
      hub.repos[kRepo][name] = read_file(fs::path(SPARKX_SOURCE_DIR) / "models/mini" / name);
    }
  }

  ModelHub hub;
  HubHome home;  // the program has our environment
};

TEST_F(Pull, PrintsThePathAloneAndTheModelThenRunsByItsName) {
  const ProcessResult pulled = sparkx({"pull", kRepo});
  ASSERT_EQ(pulled.status, 0) << pulled.err;
  const fs::path path = home.hugging_face() / "models--owner--mini/snapshots" / ModelHub::kCommit;
  EXPECT_EQ(pulled.out, path.string() + "\n");
  EXPECT_TRUE(pulled.err.starts_with("sparkx: fetching owner/mini (")) << pulled.err;
  EXPECT_FALSE(fs::exists(path / "README.md"));
  const ProcessResult ids = sparkx({"tokenize", "-m", kRepo, "--offline", "53乘以42"});
  EXPECT_EQ(ids.status, 0) << ids.err;
  EXPECT_EQ(ids.out, sparkx({"tokenize", "-m", path.string(), "53乘以42"}).out);
  EXPECT_EQ(sparkx({"pull", kRepo, "--offline"}).out, pulled.out);
}

TEST_F(Pull, TakesTheFilesAndTheHubThatAreAskedFor) {
  const ProcessResult one = sparkx({"pull", kRepo, "--file", "tokenizer.*", "--endpoint", hub.url() + "/"});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_TRUE(one.out.ends_with("/tokenizer.json\n")) << one.out;
  const ProcessResult other = sparkx({"pull", kRepo, "--source", "modelscope"});
  EXPECT_EQ(other.out, (home.modelscope() / "models/owner--mini/snapshots/master").string() + "\n") << other.err;
  EXPECT_EQ(sparkx({"tokenize", "-m", "modelscope:owner/mini", "--offline", "1"}).status, 0);
}

TEST_F(Pull, AFirstUseWithoutATerminalNeedsYes) {
  const ProcessResult refused = sparkx({"tokenize", "-m", kRepo, "1"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_EQ(
      refused.err,
      "sparkx: error: owner/mini: there is no such file or folder, nor a model of that name on this machine; --yes "
      "fetches it\n");
  EXPECT_EQ(hub.hub().requests().size(), 0u);
  const ProcessResult fetched = sparkx({"tokenize", "-m", kRepo, "--yes", "1"});
  EXPECT_EQ(fetched.status, 0) << fetched.err;
  EXPECT_TRUE(fetched.err.starts_with("sparkx: fetching owner/mini (")) << fetched.err;
}

TEST_F(Pull, AFirstUseOnATerminalAsks) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  const auto answered = [](const std::string& answer) {
    return sparkx({"tokenize", "-m", kRepo, "1"},
                  {.input = answer, .keep_input_open = true, .terminal_input = true, .terminal_error = true});
  };
  const ProcessResult no = answered("\n");
  EXPECT_EQ(no.status, 1);
  EXPECT_TRUE(contains(no.err, "sparkx: fetch owner/mini (")) << no.err;
  EXPECT_TRUE(contains(no.err, " in 6 files) from 127.0.0.1:")) << no.err;
  EXPECT_TRUE(contains(no.err, "owner/mini: is not on this machine, and was not fetched")) << no.err;
  EXPECT_EQ(HubHome::files_in(home.hugging_face()), std::vector<std::string>());
  const ProcessResult yes = answered("y\n");
  EXPECT_EQ(yes.status, 0) << yes.err;
  EXPECT_NE(yes.out, "");
}

TEST_F(Pull, OfflineNothingIsFetched) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"pull", kRepo, "--offline"},
                                             {"tokenize", "-m", kRepo, "--offline", "1"},
                                             {"generate", "-m", kRepo, "--offline", "--yes", "-p", "1"}}) {
    const ProcessResult r = sparkx(arguments);
    EXPECT_EQ(r.status, 1);
    EXPECT_EQ(r.err,
              "sparkx: error: owner/mini: is not on this machine, and fetching is off (--offline, HF_HUB_OFFLINE)\n");
  }
  EXPECT_EQ(sparkx({"tokenize", "-m", kRepo, "1", "--yes"}, {.environment = {{"HF_HUB_OFFLINE", "1"}}}).status, 1);
  EXPECT_EQ(hub.hub().requests().size(), 0u);
}

TEST_F(Pull, APathThatExistsIsNoName) {
  const TempDir folder;
  fs::create_directory_symlink(fs::path(SPARKX_SOURCE_DIR) / "models", folder / "owner");
  const ProcessResult r = run_process({"/bin/sh", "-c", "cd \"$0\" && \"$1\" tokenize -m owner/mini 1",
                                       folder.path().string(), SPARKX_BINARY_DIR "/sparkx"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(hub.hub().requests().size(), 0u);
}

TEST_F(Pull, CtrlCKeepsThePartAndTheNextCallTakesUpThere) {
  const std::string& weights = hub.repos[kRepo]["model.safetensors"];
  const std::size_t part = weights.size() / 2;
  hub.change_cdn = [&](const ServedRequest& request, ServedReply& reply) {
    if (request.header("range").empty()) reply.stall_after = part;
  };
  const fs::path partial =
      home.hugging_face() / "models--owner--mini/blobs" / (hash_of(HashKind::sha256, weights) + ".incomplete");
  Process program(sparkx_arguments({"pull", kRepo}));
  program.run_until([&](const ProcessResult&) { return fs::exists(partial) && fs::file_size(partial) == part; });
  program.send_signal(SIGINT);
  const ProcessResult r = program.wait();
  EXPECT_EQ(r.status, 130);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(fs::file_size(partial), part);
  const ProcessResult again = sparkx({"pull", kRepo});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(hub.cdn().requests().back().header("range"), "bytes=" + std::to_string(part) + "-");
  EXPECT_EQ(read_file(again.out.substr(0, again.out.size() - 1) + "/model.safetensors"), weights);
}

TEST_F(Pull, ALieIsAnErrorThatNamesFileAndHash) {
  hub.change_cdn = [](const ServedRequest&, ServedReply& reply) { reply.body[1000] ^= 1; };
  const ProcessResult r = sparkx({"pull", kRepo});
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(r.out, "");
  EXPECT_TRUE(contains(r.err, "sparkx: error: owner/mini: model.safetensors: the server sends other content")) << r.err;
}

TEST_F(Pull, TheTokenIsNeverShown) {
  hub.needs_token = "hf_other";
  const ProcessResult r = sparkx({"pull", kRepo}, {.environment = {{"HF_TOKEN", "hf_secret"}}});
  EXPECT_EQ(r.status, 1);
  EXPECT_FALSE(contains(r.out + r.err, "hf_secret")) << r.err;
  ASSERT_EQ(hub.hub().requests().size(), 1u);
  EXPECT_EQ(hub.hub().requests()[0].header("authorization"), "Bearer hf_secret");
}

TEST_F(Pull, WhatIsNoNameIsAUsageError) {
  for (const char* name : {"mini", "../x", "a/b/c", "https://huggingface.co/a/b"}) {
    const ProcessResult r = sparkx({"pull", name});
    EXPECT_EQ(r.status, 2) << name;
    EXPECT_TRUE(contains(r.err, "is not the name of a model, such as owner/name")) << r.err;
  }
  EXPECT_EQ(sparkx({"pull", kRepo, "--source", "elsewhere"}).status, 2);
  EXPECT_EQ(sparkx({"pull", kRepo, "--endpoint", "ftp://x"}).status, 1);
}

TEST_F(Pull, ModelsAreListedVerifiedAndRemoved) {
  ASSERT_EQ(sparkx({"pull", kRepo}).status, 0);
  const ProcessResult list = sparkx({"models", "list"});
  EXPECT_EQ(list.status, 0) << list.err;
  EXPECT_TRUE(list.out.starts_with("owner/mini  ")) << list.out;
  EXPECT_TRUE(list.out.ends_with("  safetensors  runs\n")) << list.out;
  const json::Value models = json::parse(sparkx({"models", "list", "--json"}).out, "list");
  ASSERT_EQ(models.as_array().size(), 1u);
  EXPECT_EQ(models.as_array()[0].find("name")->as_string(), kRepo);
  EXPECT_EQ(models.as_array()[0].find("source")->as_string(), "huggingface");
  EXPECT_TRUE(models.as_array()[0].find("runnable")->as_bool());
  EXPECT_TRUE(models.as_array()[0].find("reason")->is_null());

  EXPECT_EQ(sparkx({"models", "verify"}).status, 0);
  const std::string blob = hash_of(HashKind::sha256, hub.repos[kRepo]["model.safetensors"]);
  home.folder().write("hf/hub/models--owner--mini/blobs/" + blob, "changed");
  const ProcessResult verified = sparkx({"models", "verify", kRepo});
  EXPECT_EQ(verified.status, 1);
  EXPECT_TRUE(contains(verified.out, "BROKEN  owner/mini  ")) << verified.out;
  EXPECT_TRUE(contains(verified.out, "ok      owner/mini  ")) << verified.out;

  EXPECT_EQ(sparkx({"models", "rm", kRepo}).status, 2) << "nobody can be asked";
  const ProcessResult removed = sparkx({"models", "rm", kRepo, "--yes"});
  EXPECT_EQ(removed.status, 0) << removed.err;
  EXPECT_EQ(HubHome::files_in(home.hugging_face()), std::vector<std::string>());
  EXPECT_EQ(sparkx({"models", "list", "--json"}).out, "[]\n");
  EXPECT_EQ(sparkx({"models", "rm", kRepo, "--yes"}).status, 1);
}

TEST_F(Pull, RemovingAsksOnATerminal) {
  if (!has_terminals()) GTEST_SKIP() << "no pseudo-terminals here";
  ASSERT_EQ(sparkx({"pull", kRepo}).status, 0);
  const ProcessOptions no{.input = "n\n", .keep_input_open = true, .terminal_input = true};
  const ProcessResult stays = sparkx({"models", "rm", kRepo}, no);
  EXPECT_EQ(stays.status, 0);
  EXPECT_TRUE(contains(stays.err, "sparkx: remove owner/mini (")) << stays.err;
  EXPECT_EQ(sparkx({"models", "verify", kRepo}).status, 0);
  const ProcessOptions yes{.input = "yes\n", .keep_input_open = true, .terminal_input = true};
  EXPECT_EQ(sparkx({"models", "rm", kRepo}, yes).status, 0);
  EXPECT_EQ(sparkx({"models", "verify", kRepo}).status, 1);
}

}  // namespace
}  // namespace sparkx::testing
