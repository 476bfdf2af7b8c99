#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "sparkx/hub.hpp"
#include "support/errors.h"
#include "support/hub_home.h"
#include "support/model_hub.h"

namespace sparkx::testing {
namespace {

namespace fs = std::filesystem;

using Strings = std::vector<std::string>;

constexpr const char* kRepo = "owner/name";
const std::string kFolder = "models--owner--name/";
const std::string kSnapshot = kFolder + "snapshots/" + ModelHub::kCommit + "/";

std::string sha256(std::string_view content) {
  return hash_of(HashKind::sha256, content);
}
std::string git_hash(std::string_view content) {
  return hash_of(HashKind::git_blob, content);
}

// A text that is nowhere like itself, so that bytes at a wrong place are noticed.
std::string content(std::size_t size, std::uint32_t seed = 1) {
  std::string text;
  for (std::uint32_t x = seed; text.size() < size;) {
    x = x * 1664525u + 1013904223u;
    text += static_cast<char>(x >> 24);
  }
  return text;
}

class Fetch : public ::testing::Test {
 protected:
  Fetch() : home(hub.url()) {
    options.retry_delay = std::chrono::milliseconds(1);
    options.stall_timeout = std::chrono::seconds(1);
    options.attempts = 3;
  }

  // One file, the only thing of a repository.
  void serve_one_file(const std::string& body) { hub.repos[kRepo] = {{"m.gguf", body}}; }

  std::string error(const std::string& name = kRepo) {
    return error_of([&] { pull_model(name, options); });
  }
  Strings cache() const { return HubHome::files_in(home.hugging_face()); }

  ModelHub hub;
  HubHome home;
  FetchOptions options;
};

TEST_F(Fetch, PutsWhatTheModelNeedsIntoTheCacheOfPython) {
  const std::string weights = content(100'000);
  hub.repos[kRepo] = {{"config.json", "{}"},        {"model.safetensors", weights}, {"tokenizer.json", "[]"},
                      {"modeling.py", "import os"}, {"pytorch_model.bin", "PK"},    {"README.md", "# x"}};
  const fs::path path = pull_model(kRepo, options);
  EXPECT_EQ(path, home.hugging_face() / kSnapshot.substr(0, kSnapshot.size() - 1));
  EXPECT_EQ(read_file(path / "model.safetensors"), weights);
  EXPECT_EQ(read_file(home.hugging_face() / kFolder / "refs/main"), ModelHub::kCommit);
  Strings expected{kFolder + "blobs/" + git_hash("{}"),
                   kFolder + "blobs/" + git_hash("[]"),
                   kFolder + "blobs/" + sha256(weights),
                   kFolder + "refs/main",
                   kSnapshot + "config.json -> ../../blobs/" + git_hash("{}"),
                   kSnapshot + "model.safetensors -> ../../blobs/" + sha256(weights),
                   kSnapshot + "tokenizer.json -> ../../blobs/" + git_hash("[]")};
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(cache(), expected);
}

TEST_F(Fetch, WhatIsHereIsNotFetchedAgain) {
  hub.repos[kRepo] = {{"config.json", "{}"}, {"model.safetensors", content(5000)}};
  EXPECT_EQ(find_model(kRepo), std::nullopt);
  const fs::path path = pull_model(kRepo, options);
  options.confirm = [](const FetchPlan&) { return false; };
  EXPECT_EQ(pull_model(kRepo, options), path);
  EXPECT_EQ(hub.cdn().requests().size(), 1u);
  EXPECT_EQ(hub.hub().count("GET", "config.json"), 1u);
  EXPECT_EQ(find_model(kRepo), path);
  EXPECT_EQ(hub.hub().count("GET", "/api/"), 2u) << "to find a model asks nobody";
}

TEST_F(Fetch, LinksFromSubfoldersLeadUpFarEnough) {
  hub.repos[kRepo] = {{"Q8_0/m-Q8_0.gguf", "weights"}};
  const fs::path path = pull_model(std::string(kRepo) + ":q8_0", options);
  EXPECT_EQ(path, home.hugging_face() / kSnapshot / "Q8_0/m-Q8_0.gguf");
  EXPECT_EQ(fs::read_symlink(path), "../../../blobs/" + sha256("weights"));
  EXPECT_EQ(read_file(path), "weights");
}

TEST_F(Fetch, OneQuantizationOfSeveralComesAlone) {
  hub.repos[kRepo] = {{"m-Q4_K_M.gguf", "four"}, {"m-Q8_0.gguf", "eight"}};
  EXPECT_EQ(read_file(pull_model("owner/name:q4_k_m", options)), "four");
  EXPECT_EQ(hub.cdn().requests().size(), 1u);
  EXPECT_EQ(find_model("owner/name:Q8_0"), std::nullopt);
  EXPECT_TRUE(error().starts_with("invalid_argument: owner/name on 127.0.0.1")) << error();
}

TEST_F(Fetch, PatternsChooseFiles) {
  hub.repos[kRepo] = {{"config.json", "{}"}, {"tokenizer.json", "[]"}, {"model.safetensors", "w"}, {"run.py", "x"}};
  options.file_patterns = {"tok*"};
  EXPECT_EQ(read_file(pull_model(kRepo, options)), "[]");
  options.file_patterns = {"*"};
  EXPECT_EQ(HubHome::files_in(pull_model(kRepo, options)).size(), 3u);
}

TEST_F(Fetch, InterruptedAtAnyByteAndResumedGivesTheSameFile) {
  const std::string body = content(150);
  serve_one_file(body);
  options.attempts = 1;
  const fs::path partial = home.hugging_face() / kFolder / "blobs" / (sha256(body) + ".incomplete");
  std::optional<std::size_t> cut;
  hub.change_cdn = [&](const ServedRequest&, ServedReply& reply) { reply.cut_after = cut; };
  for (std::size_t at = 0; at < body.size(); ++at) {
    cut = at;
    const std::string failure = error();
    ASSERT_TRUE(failure.starts_with("network: ")) << at << ": " << failure;
    ASSERT_EQ(HubHome::files_in(home.hugging_face()).size(), at == 0 ? 0u : 1u);
    if (at > 0) {
      ASSERT_EQ(fs::file_size(partial), at);
    }
    cut.reset();
    ASSERT_EQ(read_file(pull_model(kRepo, options)), body) << at;
    const std::string range = hub.cdn().requests().back().header("range");
    ASSERT_EQ(range, at == 0 ? "" : "bytes=" + std::to_string(at) + "-");
    fs::remove_all(home.hugging_face());
  }
}

TEST_F(Fetch, BrokenConnectionsAndBusyServersAreTriedAgain) {
  const std::string body = content(50'000);
  serve_one_file(body);
  std::atomic<int> requests = 0;
  hub.change_cdn = [&](const ServedRequest&, ServedReply& reply) {
    switch (requests++) {
      case 0:
        reply = {503, {{"Retry-After", "0"}}, "busy"};
        break;
      case 1:
        reply.cut_after = 20'000;
        break;
    }
  };
  std::atomic<int> listings = 0;
  hub.change = [&](const ServedRequest& request, ServedReply& reply) {
    if (request.target.starts_with("/api/") && listings++ == 0) reply = {429, {}, ""};
  };
  Strings notes;
  options.note = [&](const std::string& note) { notes.push_back(note); };
  EXPECT_EQ(read_file(pull_model(kRepo, options)), body);
  EXPECT_EQ(requests, 3);
  EXPECT_EQ(hub.cdn().requests().back().header("range"), "bytes=20000-");
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_TRUE(notes[0].ends_with("answers with status 429; trying again")) << notes[0];
}

TEST_F(Fetch, AServerThatStaysBrokenIsAnErrorAndThePartStays) {
  serve_one_file(content(1000));
  hub.change_cdn = [](const ServedRequest& request, ServedReply& reply) {
    reply.cut_after = request.header("range").empty() ? 400 : 0;
  };
  EXPECT_TRUE(error().starts_with("network: ")) << error();
  EXPECT_EQ(cache(), (Strings{kFolder + "blobs/" + sha256(content(1000)) + ".incomplete"}));
}

TEST_F(Fetch, AServerWithoutRangesStartsAgain) {
  const std::string body = content(3000);
  serve_one_file(body);
  std::atomic<int> requests = 0;
  hub.change_cdn = [&](const ServedRequest&, ServedReply& reply) {
    reply = {200, {}, body};
    if (requests++ == 0) reply.cut_after = 1234;
  };
  EXPECT_EQ(read_file(pull_model(kRepo, options)), body);
  EXPECT_EQ(requests, 2);
}

TEST_F(Fetch, AConnectionOnWhichNothingComesIsGivenUp) {
  serve_one_file(content(1000));
  options.attempts = 1;
  hub.change_cdn = [](const ServedRequest&, ServedReply& reply) { reply.stall_after = 10; };
  EXPECT_TRUE(error().starts_with("network: ")) << error();
}

TEST_F(Fetch, CancellingKeepsThePartForTheNextCall) {
  const std::string body = content(1 << 20);
  serve_one_file(body);
  hub.change_cdn = [](const ServedRequest& request, ServedReply& reply) {
    if (request.header("range").empty()) reply.stall_after = 600'000;
  };
  options.stall_timeout = std::chrono::seconds(60);
  options.progress = [](const FetchProgress& progress) { return progress.done < 500'000; };
  EXPECT_EQ(error(), "cancelled: cancelled");
  options.progress = nullptr;
  EXPECT_EQ(read_file(pull_model(kRepo, options)), body);
  const std::string range = hub.cdn().requests().back().header("range");
  EXPECT_TRUE(range.starts_with("bytes=") && std::stoul(range.substr(6)) >= 500'000) << range;
}

TEST_F(Fetch, ProgressCountsUpToAllBytes) {
  hub.repos[kRepo] = {{"config.json", "{}"}, {"model.safetensors", content(500'000)}};
  std::uint64_t last = 0;
  options.confirm = [](const FetchPlan& plan) {
    EXPECT_EQ(plan.bytes, 500'002u);
    EXPECT_EQ(plan.to_fetch, 500'002u);
    EXPECT_EQ(plan.files, (Strings{"config.json", "model.safetensors"}));
    EXPECT_EQ(plan.revision, ModelHub::kCommit);
    return true;
  };
  options.progress = [&](const FetchProgress& progress) {
    EXPECT_GE(progress.done, last);
    last = progress.done;
    return true;
  };
  pull_model(kRepo, options);
  EXPECT_EQ(last, 500'002u);
}

struct LieCase {
  const char* name;
  std::function<void(const ServedRequest&, ServedReply&)> change;
  std::string says;
};

class LyingServer : public ::testing::TestWithParam<LieCase> {};

TEST_P(LyingServer, LeavesNothingInTheCache) {
  ModelHub hub;
  HubHome home(hub.url());
  const std::string body = content(2000);
  hub.repos[kRepo] = {{"m.gguf", body}};
  hub.change_cdn = GetParam().change;
  FetchOptions options;
  options.retry_delay = std::chrono::milliseconds(1);
  options.attempts = 3;
  const std::string error = error_of([&] { pull_model(kRepo, options); });
  EXPECT_TRUE(error.find(GetParam().says) != error.npos) << error;
  EXPECT_EQ(HubHome::files_in(home.hugging_face()), Strings());
  // Neither does one that lies only about the rest of a file.
  hub.change_cdn = [](const ServedRequest&, ServedReply& reply) { reply.cut_after = 700; };
  options.attempts = 1;
  EXPECT_TRUE(error_of([&] { pull_model(kRepo, options); }).starts_with("network: "));
  options.attempts = 3;
  hub.change_cdn = GetParam().change;
  const std::string later = error_of([&] { pull_model(kRepo, options); });
  EXPECT_TRUE(later.starts_with("corrupt: ") || later.starts_with("network: ")) << later;
  if (later.starts_with("corrupt: ")) {
    EXPECT_EQ(HubHome::files_in(home.hugging_face()), Strings());
  } else {
    EXPECT_EQ(HubHome::files_in(home.hugging_face()), (Strings{kFolder + "blobs/" + sha256(body) + ".incomplete"}));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Hub, LyingServer,
    ::testing::Values(
        LieCase{"TooShort", [](auto&, ServedReply& reply) { reply.body.resize(reply.body.size() / 2); },
                "corrupt: owner/name: m.gguf: the server announces 1000 bytes, not the 2000 that the file has"},
        LieCase{"TooLong", [](auto&, ServedReply& reply) { reply.body += "x"; },
                "the server announces 2001 bytes, not the 2000 that the file has"},
        LieCase{"TooShortUnannounced",
                [](auto&, ServedReply& reply) {
                  reply = {200, {}, std::string(500, 'x')};
                  reply.with_length = false;
                },
                "corrupt: owner/name: m.gguf: only 500 of 2000 bytes came"},
        LieCase{"Endless",
                [](auto&, ServedReply& reply) {
                  reply = {200, {}, std::string(100'000, 'x')};
                  reply.endless = true;
                },
                "corrupt: owner/name: m.gguf: the server sends more than the 2000 bytes of the file"},
        LieCase{"OtherContent", [](auto&, ServedReply& reply) { reply.body.back() ^= 1; },
                "corrupt: owner/name: m.gguf: the server sends other content than that with the hash "},
        LieCase{"WebPage",
                [](auto&, ServedReply& reply) {
                  reply = {200, {{"Content-Type", "text/html; charset=utf-8"}}, "<html>please log in</html>"};
                },
                "announces 26 bytes, not the 2000 that the file has; it sends a web page (of a proxy, or to log in?)"},
        LieCase{"WebPageOfTheRightSize",
                [](auto&, ServedReply& reply) {
                  reply = {200, {{"Content-Type", "text/html"}}, std::string(2000, '<')};
                },
                "it sends a web page"},
        LieCase{"Compressed", [](auto&, ServedReply& reply) { reply.headers.emplace_back("Content-Encoding", "gzip"); },
                "sends the file in an encoding nobody asked for (gzip)"},
        LieCase{"OtherRange",
                [](auto&, ServedReply& reply) {
                  reply.status = 206;
                  reply.headers = {{"Content-Range", "bytes 1-1999/2000"}};
                },
                "sends another part of the file than the one from byte 0 of 2000: \"bytes 1-1999/2000\""},
        LieCase{"RangeOfALargerFile",
                [](auto&, ServedReply& reply) {
                  reply.status = 206;
                  reply.headers = {{"Content-Range", "bytes 0-1999/99999999999999999999"}};
                },
                "sends another part of the file"},
        LieCase{"NoContent",
                [](auto&, ServedReply& reply) {
                  reply = {204, {}, ""};
                },
                "answers with status 204"},
        LieCase{"RedirectsInACircle",
                [](const ServedRequest& request, ServedReply& reply) {
                  reply = {302, {{"Location", request.target}}, ""};
                },
                "network: http://127.0.0.1:"},
        LieCase{"RedirectsToTheDisk",
                [](auto&, ServedReply& reply) {
                  reply = {302, {{"Location", "file:///etc/passwd"}}, ""};
                },
                "redirects to \"file:///etc/passwd\", where nothing is fetched from"},
        LieCase{"RedirectsWithAPassword",
                [](auto&, ServedReply& reply) {
                  reply = {302, {{"Location", "http://a:b@127.0.0.1/"}}, ""};
                },
                "where nothing is fetched from"},
        LieCase{"SaysNoRange",
                [](auto&, ServedReply& reply) {
                  reply = {416, {}, ""};
                },
                "the file has no first byte"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(Fetch, NamesThatLeadOutOfTheCacheAreRefused) {
  for (const char* name : {"../../../evil.gguf", "/tmp/evil.gguf", "a\\..\\evil.gguf", "C:/evil.gguf",
                           "nul.gguf/../x.gguf", "evil\n.gguf", "CON.gguf"}) {
    serve_one_file("x");
    hub.listed_as["m.gguf"] = name;
    EXPECT_TRUE(error().find("a name that is not safe to write") != std::string::npos) << error();
    EXPECT_EQ(HubHome::files_in(home.folder().path()), Strings());
  }
}

TEST_F(Fetch, AListingThatIsNoneLeavesNothing) {
  serve_one_file("x");
  for (const ServedReply& reply : {ServedReply{200, {{"Content-Type", "text/html"}}, "<html>"},
                                   ServedReply{200, {}, "{}"}, ServedReply{200, {}, ""}}) {
    hub.change = [&](const ServedRequest&, ServedReply& answer) { answer = reply; };
    EXPECT_TRUE(error().starts_with("corrupt: 127.0.0.1")) << error();
  }
  hub.change = [](const ServedRequest&, ServedReply& answer) {
    answer.body = std::string(1 << 20, ' ');
    answer.endless = true;
  };
  EXPECT_EQ(error(), "corrupt: owner/name on " + hub.url().substr(7) + ": the answer is longer than 33554432 bytes");
  EXPECT_EQ(cache(), Strings());
}

TEST_F(Fetch, SaysWhatIsNotThere) {
  const std::string at = " on " + hub.url().substr(7);
  EXPECT_EQ(error("no/body"), "not_found: no/body" + at + ": is not there");
  serve_one_file("x");
  EXPECT_EQ(error("owner/name@v9"), "not_found: owner/name@v9" + at + ": is not there");
  hub.needs_token = "hf_secret";
  EXPECT_EQ(error(), "not_found: owner/name" + at +
                         ": is not there, or not for everybody: then set HF_TOKEN to a token that may read it");
  hub.change = [](const ServedRequest&, ServedReply& reply) {
    reply = {403, {{"X-Error-Message", "Ask \x1b[31m first"}}, ""};
  };
  EXPECT_EQ(error(),
            "not_found: owner/name" + at +
                ": is not for this user; if its page asks to accept conditions, do that, and set HF_TOKEN (the "
                "hub says: \"Ask \\u001b[31m first\")");
  EXPECT_EQ(error("name"),
            "invalid_argument: \"name\" is not the name of a model, such as owner/name or "
            "owner/name:Q4_K_M");
  EXPECT_EQ(cache(), Strings());
}

TEST_F(Fetch, TheTokenGoesToTheHubAndToNobodyElse) {
  serve_one_file(content(100));
  hub.needs_token = "hf_secret";
  home.set("HF_TOKEN", " hf_secret\n");
  pull_model(kRepo, options);
  for (const ServedRequest& request : hub.hub().requests()) {
    EXPECT_EQ(request.header("authorization"), "Bearer hf_secret") << request.target;
  }
  ASSERT_EQ(hub.cdn().requests().size(), 1u);
  EXPECT_EQ(hub.cdn().requests()[0].header("authorization"), "");
}

TEST_F(Fetch, TheTokenMayLieInTheUsualFile) {
  serve_one_file("x");
  hub.needs_token = "hf_filed";
  home.folder().write("hf/token", "hf_filed\n");
  EXPECT_EQ(read_file(pull_model(kRepo, options)), "x");
  home.set("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1");
  EXPECT_TRUE(error().starts_with("not_found: ")) << error();
  home.set("HF_HUB_DISABLE_IMPLICIT_TOKEN", "");
  home.set("HF_TOKEN", "hf_\x1bstolen");
  const std::string said = error();
  EXPECT_EQ(said, "invalid_argument: the token has a character that no token has");
}

TEST_F(Fetch, GoesThroughAProxyWhichGetsNoTokenThatOthersCouldRead) {
  serve_one_file("through a proxy");
  hub.files_from_cdn = false;
  home.set("HF_TOKEN", "hf_secret");
  home.set("http_proxy", hub.url());
  options.endpoint = "http://hub.example";
  EXPECT_EQ(read_file(pull_model(kRepo, options)), "through a proxy");
  for (const ServedRequest& request : hub.hub().requests()) {
    EXPECT_TRUE(request.target.starts_with("http://hub.example/")) << request.target;
    EXPECT_EQ(request.header("authorization"), "");
  }
}

TEST_F(Fetch, OfflineNothingIsAsked) {
  serve_one_file("x");
  home.set("HF_HUB_OFFLINE", "ON");
  EXPECT_EQ(error(),
            "unavailable: owner/name: is not on this machine, and fetching is off (--offline, HF_HUB_OFFLINE)");
  home.set("HF_HUB_OFFLINE", "0");
  const fs::path path = pull_model(kRepo, options);
  const std::size_t requests = hub.hub().requests().size();
  options.offline = true;
  EXPECT_EQ(pull_model(kRepo, options), path);
  EXPECT_EQ(error("other/name"),
            "unavailable: other/name: is not on this machine, and fetching is off (--offline, HF_HUB_OFFLINE)");
  EXPECT_EQ(hub.hub().requests().size(), requests);
}

TEST_F(Fetch, AMirrorThatListsNoHashesIsAskedForEachFile) {
  hub.repos[kRepo] = {{"config.json", "{}"}, {"model.safetensors", content(1000)}};
  hub.lists_hashes = false;
  const fs::path path = pull_model(kRepo, options);
  EXPECT_EQ(read_file(path / "model.safetensors"), content(1000));
  EXPECT_EQ(fs::read_symlink(path / "config.json"), "../../blobs/" + git_hash("{}"));
  EXPECT_EQ(hub.hub().count("HEAD", "/resolve/"), 2u);
  EXPECT_EQ(hub.cdn().count("HEAD", ""), 0u) << "the hub's own redirect has all";
}

TEST_F(Fetch, AHubThatContradictsItselfIsNotBelieved) {
  serve_one_file("x");
  hub.lists_hashes = false;
  hub.change = [](const ServedRequest& request, ServedReply& reply) {
    if (request.method != "HEAD") return;
    for (auto& [name, value] : reply.headers) {
      if (name == "X-Repo-Commit") value = std::string(40, 'f');
    }
  };
  EXPECT_TRUE(error().starts_with("corrupt: owner/name: m.gguf: the hub lists commit 0123")) << error();
  hub.change = [](const ServedRequest& request, ServedReply& reply) {
    if (request.method == "HEAD") reply = {200, {{"ETag", "\"../../x\""}}, "x"};
  };
  EXPECT_EQ(error(), "corrupt: owner/name: m.gguf: the hub gives no hash to check the file by");
  EXPECT_EQ(cache(), Strings());
}

TEST_F(Fetch, WhatDoesNotFitOntoTheDiskIsNotBegun) {
  serve_one_file("x");
  hub.change = [](const ServedRequest& request, ServedReply& reply) {
    if (!request.target.starts_with("/api/")) return;
    const std::string size = "\"size\": 1,", larger = "\"size\": 1125899906842624,";
    for (std::size_t at = 0; (at = reply.body.find(size, at)) != std::string::npos; at += larger.size()) {
      reply.body.replace(at, size.size(), larger);
    }
  };
  EXPECT_TRUE(error().starts_with("io: ")) << error();
  EXPECT_TRUE(error().find("1125899906842624 bytes are to be fetched, and there is room for ") != std::string::npos);
  EXPECT_EQ(hub.cdn().requests().size(), 0u);
  EXPECT_EQ(cache(), Strings());
}

// A limit on the size of files fails in the same place as a disk that becomes full.
TEST_F(Fetch, WhatCannotBeWrittenToItsEndIsTakenUpByTheNextCall) {
  const std::string body = content(1 << 20);
  serve_one_file(body);
  constexpr std::size_t kLimit = 300'000;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{kLimit, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string failure = error();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(failure.starts_with("io: ")) << failure;
  EXPECT_TRUE(failure.ends_with(".incomplete: cannot be written: File too large")) << failure;
  EXPECT_EQ(hub.cdn().requests().size(), 1u) << "no second try helps";
  const fs::path partial = home.hugging_face() / kFolder / "blobs" / (sha256(body) + ".incomplete");
  ASSERT_EQ(fs::file_size(partial), kLimit);
  EXPECT_EQ(read_file(pull_model(kRepo, options)), body);
  EXPECT_EQ(hub.cdn().requests().back().header("range"), "bytes=" + std::to_string(kLimit) + "-");
}

TEST_F(Fetch, ANewCommitTakesWhatIsSharedFromTheOldOne) {
  hub.repos[kRepo] = {{"config.json", "{}"}, {"model.safetensors", content(1000)}};
  const fs::path old = pull_model(kRepo, options);
  hub.commit = std::string(40, 'b');
  hub.repos[kRepo]["config.json"] = "{\"a\": 1}";
  EXPECT_EQ(find_model(kRepo), old);
  const fs::path path = pull_model(kRepo, options);
  EXPECT_EQ(path.filename(), hub.commit);
  EXPECT_EQ(read_file(path / "config.json"), "{\"a\": 1}");
  EXPECT_EQ(read_file(old / "config.json"), "{}");
  EXPECT_EQ(hub.cdn().requests().size(), 1u);
  EXPECT_EQ(find_model(kRepo), path);
  EXPECT_EQ(find_model(std::string(kRepo) + "@" + ModelHub::kCommit), old);
}

TEST_F(Fetch, UntilAllOfANewCommitIsHereTheOldOneIsTheModel) {
  hub.repos[kRepo] = {{"config.json", "{}"}, {"model.safetensors", content(1000)}};
  const fs::path old = pull_model(kRepo, options);
  hub.commit = std::string(40, 'b');
  hub.repos[kRepo]["model.safetensors"] = content(1000, 2);
  hub.change_cdn = [](const ServedRequest&, ServedReply& reply) { reply.cut_after = 10; };
  options.attempts = 1;
  EXPECT_TRUE(error().starts_with("network: ")) << error();
  EXPECT_EQ(find_model(kRepo), old);
}

TEST_F(Fetch, APartThatSomethingElseLeftIsThrownAway) {
  const std::string body = content(1000);
  serve_one_file(body);
  for (const std::string& left : {content(400, 9), content(5000, 9), content(1000, 9)}) {
    home.folder().write("hf/hub/" + kFolder + "blobs/" + sha256(body) + ".incomplete", left);
    EXPECT_EQ(read_file(pull_model(kRepo, options)), body);
    fs::remove_all(home.hugging_face());
  }
}

TEST_F(Fetch, ABlobOfTheWrongSizeIsReplaced) {
  const std::string body = content(1000);
  serve_one_file(body);
  home.folder().write("hf/hub/" + kFolder + "blobs/" + sha256(body), "cut off");
  EXPECT_EQ(read_file(pull_model(kRepo, options)), body);
}

TEST_F(Fetch, WaitsForAnotherProgramThatFetchesTheSame) {
  const std::string body = content(1000);
  serve_one_file(body);
  const fs::path lock = home.folder().write("hf/hub/.locks/models--owner--name/" + sha256(body) + ".lock", "");
  const int descriptor = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(descriptor, LOCK_EX), 0);
  std::atomic<int> notes = 0;
  std::thread other;
  options.note = [&](const std::string& note) {
    EXPECT_EQ(note, "another program is fetching this file; waiting for it");
    if (notes++ > 0) return;
    other = std::thread([&] {
      home.folder().write("hf/hub/" + kFolder + "blobs/" + sha256(body), body);
      ::close(descriptor);
    });
  };
  EXPECT_EQ(read_file(pull_model(kRepo, options)), body);
  other.join();
  EXPECT_EQ(notes, 1);
  EXPECT_EQ(hub.cdn().requests().size(), 0u) << "the other program has fetched it";
}

TEST_F(Fetch, ModelScopesFilesLieWhereItsLibraryHasThem) {
  hub.repos[kRepo] = {{"config.json", "{}"}, {"model.safetensors", content(1000)}, {"x.py", "import os"}};
  const std::string name = "modelscope:owner/name";
  EXPECT_EQ(find_model(name), std::nullopt);
  const fs::path path = pull_model(name, options);
  EXPECT_EQ(path, home.modelscope() / "models/owner--name/snapshots/master");
  EXPECT_EQ(HubHome::files_in(home.modelscope()), (Strings{"models/owner--name/snapshots/master/config.json",
                                                           "models/owner--name/snapshots/master/model.safetensors"}));
  EXPECT_EQ(read_file(path / "model.safetensors"), content(1000));
  const std::size_t files = hub.hub().count("GET", "FilePath=");
  EXPECT_EQ(pull_model(name, options), path);
  EXPECT_EQ(hub.hub().count("GET", "FilePath="), files);
  EXPECT_EQ(find_model(name), path);
  hub.repos[kRepo]["model.safetensors"] = content(1000, 2);
  pull_model(name, options);
  EXPECT_EQ(read_file(path / "model.safetensors"), content(1000, 2)) << "other content of the same size";
  EXPECT_EQ(HubHome::files_in(home.hugging_face()), Strings());
}

TEST_F(Fetch, ModelScopeGetsNoTokenOfHuggingFaceAndLeavesNothingWhenItLies) {
  serve_one_file(content(1000));
  home.set("HF_TOKEN", "hf_secret");
  hub.change = [](const ServedRequest& request, ServedReply& reply) {
    EXPECT_EQ(request.header("authorization"), "");
    if (request.target.find("FilePath=") != std::string::npos) reply.body.back() ^= 1;
  };
  EXPECT_TRUE(error("modelscope:owner/name").starts_with("corrupt: modelscope:owner/name: m.gguf: ")) << error();
  EXPECT_EQ(HubHome::files_in(home.modelscope()), Strings());
}

TEST_F(Fetch, OllamaAndLmStudioAreAskedForWhatTheyHaveOnly) {
  EXPECT_EQ(error("ollama:qwen3:4b"), "not_found: ollama:qwen3:4b: that program has no such model on this machine");
  EXPECT_EQ(hub.hub().requests().size(), 0u);
}

}  // namespace
}  // namespace sparkx::testing
