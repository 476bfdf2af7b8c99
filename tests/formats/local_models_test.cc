#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sparkx/hub.hpp"
#include "support/checkpoints.h"
#include "support/errors.h"
#include "support/gguf_files.h"
#include "support/hub_home.h"
#include "support/model_hub.h"

namespace sparkx::testing {
namespace {

namespace fs = std::filesystem;

using Strings = std::vector<std::string>;

// Models as the other programs leave them.
class LocalModels : public ::testing::Test {
 protected:
  LocalModels() : home("http://127.0.0.1:9") {}

  std::string hugging_face(const std::string& repo, const std::string& commit, const std::string& path,
                           const std::string& content) {
    const std::string folder = "hf/hub/models--" + repo + "/";
    const std::string hash = hash_of(ModelHub::is_large(path) ? HashKind::sha256 : HashKind::git_blob, content);
    home.folder().write(folder + "blobs/" + hash, content);
    const fs::path link = home.folder() / (folder + "snapshots/" + commit + "/" + path);
    fs::create_directories(link.parent_path());
    fs::create_symlink((home.folder() / (folder + "blobs/" + hash)).lexically_relative(link.parent_path()), link);
    return hash;
  }
  void reference(const std::string& repo, const std::string& revision, const std::string& commit) {
    home.folder().write("hf/hub/models--" + repo + "/refs/" + revision, commit);
  }
  void checkpoint(const std::string& repo, const std::string& commit) {
    for (const auto& [name, content] : small_checkpoint().contents) hugging_face(repo, commit, name, content);
  }
  std::string ollama(const std::string& manifest, const std::string& content) {
    const std::string hash = hash_of(HashKind::sha256, content);
    home.folder().write("ollama/blobs/sha256-" + hash, content);
    home.folder().write("ollama/manifests/" + manifest,
                        R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:)" + hash +
                            R"(", "size": )" + std::to_string(content.size()) + "}]}");
    return hash;
  }

  // "name format runs", or "name format: reason".
  static Strings listed() {
    Strings lines;
    for (const LocalModel& model : list_models()) {
      lines.push_back(model.name + " " + model.format + (model.runnable ? " runs" : ": " + model.reason));
    }
    return lines;
  }

  HubHome home;
  const std::string a = std::string(40, 'a'), b = std::string(40, 'b');
  const std::string gguf = small_gguf().bytes();
};

TEST_F(LocalModels, OfAllProgramsAreListedAndFoundUnderTheirNames) {
  checkpoint("owner--whole", a);
  reference("owner--whole", "main", a);
  checkpoint("owner--whole", b);
  hugging_face("owner--files", a, "m-Q4_0.gguf", gguf);
  hugging_face("owner--files", a, "m-F32.gguf", gguf);
  reference("owner--files", "main", a);
  reference("owner--files", "v1", a);
  checkpoint("owner--dev", a);
  reference("owner--dev", "refs/pr/1", a);
  for (const auto& [name, content] : small_checkpoint().contents) {
    home.folder().write("ms/models/maker--new.1/snapshots/master/" + name, content);
    home.folder().write("ms/hub/models/maker/old___1/" + name, content);
    home.folder().write(".lmstudio/models/maker/mlx/" + name, content);
  }
  home.folder().write("ms/hub/models/maker/quants/Q4_0/m-Q4_0.gguf", gguf);
  home.folder().write(".cache/lm-studio/models/maker/repo/m-Q8_0.gguf", gguf);
  ollama("registry.ollama.ai/library/spark/1.7b", gguf);
  ollama("registry.ollama.ai/somebody/spark/latest", gguf);
  ollama("hf.co/owner/name/Q4_0", gguf);
  EXPECT_EQ(listed(),
            (Strings{"owner/dev@refs/pr/1 safetensors runs", "owner/files:F32 GGUF runs", "owner/files:Q4_0 GGUF runs",
                     "owner/whole@" + b + " safetensors runs", "owner/whole safetensors runs",
                     "modelscope:maker/new.1 safetensors runs", "modelscope:maker/old.1 safetensors runs",
                     "modelscope:maker/quants:Q4_0 GGUF runs", "lmstudio:maker/mlx safetensors runs",
                     "lmstudio:maker/repo/m-Q8_0.gguf GGUF runs", "ollama:hf.co/owner/name:Q4_0 GGUF runs",
                     "ollama:spark:1.7b GGUF runs", "ollama:somebody/spark:latest GGUF runs"}));
  for (const LocalModel& model : list_models()) {
    EXPECT_EQ(find_model(model.name), model.path) << model.name;
    EXPECT_GT(model.bytes, 0u) << model.name;
  }
}

TEST_F(LocalModels, ThatDoNotRunAreListedWithTheReason) {
  hugging_face("owner--llama", a, "config.json", R"({"model_type": "llama"})");
  hugging_face("owner--llama", a, "model.safetensors", safetensors_file(small_tensors()));
  hugging_face("owner--part", a, "config.json", std::string(kSmallConfig));
  hugging_face("owner--part", a, "model-00001-of-00002.safetensors", safetensors_file(small_tensors()));
  hugging_face("owner--part", a, "model.safetensors.index.json",
               R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})");
  hugging_face("owner--split", a, "m-00001-of-00002.gguf", gguf);
  hugging_face("owner--text", a, "tokenizer.json", "{}");
  hugging_face("owner--torn", a, "m.gguf", gguf.substr(0, 100));
  TestGguf other = small_gguf();
  other.set("general.architecture", "qwen3");
  ollama("registry.ollama.ai/library/qwen3/4b", other.bytes());
  fs::remove(home.folder() / ("ollama/blobs/sha256-" + ollama("registry.ollama.ai/library/gone/latest", "x")));
  home.folder().write("ollama/manifests/registry.ollama.ai/library/broken/latest", "{");
  const Strings lines = listed();
  ASSERT_EQ(lines.size(), 8u) << ::testing::PrintToString(lines);
  EXPECT_TRUE(lines[0].starts_with("owner/llama@" + a + " safetensors: config.json: model_type is \"llama\""))
      << lines[0];
  EXPECT_EQ(lines[1], "owner/part@" + a + " safetensors: files are missing");
  EXPECT_EQ(lines[2], "owner/split@" + a + ":m-00001-of-00002.gguf GGUF: parts are missing");
  EXPECT_EQ(lines[3], "owner/text@" + a + " : neither safetensors nor GGUF files");
  EXPECT_TRUE(lines[4].starts_with("owner/torn@" + a + ":m.gguf GGUF: ")) << lines[4];
  EXPECT_TRUE(lines[5].starts_with("ollama:broken:latest GGUF: ")) << lines[5];
  EXPECT_EQ(lines[6], "ollama:gone:latest GGUF: its content is missing");
  EXPECT_TRUE(lines[7].find("qwen3") != std::string::npos) << lines[7];
  EXPECT_EQ(find_model("owner/part@" + a), std::nullopt);
  EXPECT_EQ(find_model("owner/split@" + a), std::nullopt);
  EXPECT_EQ(find_model("ollama:gone"), std::nullopt);
}

TEST_F(LocalModels, AStoreFullOfStrangeFilesIsListedAllTheSame) {
  home.folder().write("hf/hub/models--/x", "");
  home.folder().write("hf/hub/models--a--../x", "");
  home.folder().write("hf/hub/version.txt", "1");
  home.folder().write("hf/hub/models--o--n/snapshots/not-a-commit/m.gguf", gguf);
  home.folder().write("hf/hub/models--o--n/refs/main", "../../etc");
  fs::create_symlink("/proc/self", home.folder() / "hf/hub/models--o--n/snapshots/loop");
  home.folder().write("ollama/manifests/short", "{}");
  EXPECT_EQ(listed(), Strings());
  EXPECT_EQ(find_model("o/n"), std::nullopt);
}

TEST_F(LocalModels, RemovingARepositoryTakesAllOfIt) {
  checkpoint("owner--name", a);
  reference("owner--name", "main", a);
  hugging_face("owner--other", a, "m.gguf", gguf);
  home.folder().write("hf/hub/.locks/models--owner--name/x.lock", "");
  const RemovalPlan plan = plan_removal("owner/name");
  std::uint64_t bytes = a.size();
  for (const auto& [name, content] : small_checkpoint().contents) bytes += content.size();
  EXPECT_EQ(plan.bytes, bytes);
  remove_model(plan);
  EXPECT_FALSE(fs::exists(home.hugging_face() / "models--owner--name"));
  EXPECT_FALSE(fs::exists(home.hugging_face() / ".locks/models--owner--name"));
  EXPECT_EQ(listed(), (Strings{"owner/other@" + a + ":m.gguf GGUF runs"}));
}

TEST_F(LocalModels, RemovingARevisionOrAFileKeepsWhatOthersShare) {
  const std::string config = hugging_face("owner--name", a, "config.json", std::string(kSmallConfig));
  hugging_face("owner--name", b, "config.json", std::string(kSmallConfig));
  const std::string only_a = hugging_face("owner--name", a, "m-Q4_0.gguf", gguf);
  const std::string eight = hugging_face("owner--name", b, "m-Q8_0.gguf", gguf + "8");
  hugging_face("owner--name", b, "m-F16.gguf", gguf + "16");
  reference("owner--name", "main", b);
  reference("owner--name", "old", a);

  const RemovalPlan revision = plan_removal("owner/name@old");
  EXPECT_EQ(revision.bytes, a.size() + gguf.size());
  remove_model(revision);
  const fs::path folder = home.hugging_face() / "models--owner--name";
  EXPECT_FALSE(fs::exists(folder / "snapshots" / a));
  EXPECT_FALSE(fs::exists(folder / "refs/old"));
  EXPECT_FALSE(fs::exists(folder / "blobs" / only_a));
  EXPECT_TRUE(fs::exists(folder / "blobs" / config));

  const RemovalPlan file = plan_removal("owner/name:q8_0");
  EXPECT_EQ(file.bytes, gguf.size() + 1);
  remove_model(file);
  EXPECT_FALSE(fs::exists(folder / "blobs" / eight));
  EXPECT_TRUE(find_model("owner/name:F16"));
  EXPECT_EQ(error_of([] { plan_removal("owner/name:Q8_0"); }),
            "not_found: owner/name:Q8_0: no GGUF file is called Q8_0; there are:\n  m-F16.gguf");
}

TEST_F(LocalModels, NothingOutsideTheCacheIsRemoved) {
  const fs::path outside = home.folder().write("outside/m.gguf", gguf);
  const fs::path link = home.hugging_face() / "models--owner--name/snapshots" / a / "m.gguf";
  fs::create_directories(link.parent_path());
  fs::create_symlink(outside, link);
  fs::create_directory_symlink(outside.parent_path(), link.parent_path() / "folder");
  remove_model(plan_removal("owner/name@" + a));
  EXPECT_TRUE(fs::exists(outside));
  EXPECT_FALSE(fs::exists(link.parent_path()));
  EXPECT_EQ(error_of([] { plan_removal("ollama:spark"); }),
            "unsupported: ollama:spark: belongs to another program; only models in Hugging Face's cache are removed");
  EXPECT_EQ(error_of([] { plan_removal("no/body"); }), "not_found: no/body: is not on this machine");
}

TEST_F(LocalModels, VerifyingFindsTheByteThatChanged) {
  hugging_face("owner--name", a, "config.json", std::string(kSmallConfig));
  const std::string weights = hugging_face("owner--name", a, "m.gguf", gguf);
  const std::string blob = ollama("registry.ollama.ai/library/spark/latest", gguf);
  const auto broken = [](const std::string& name) {
    Strings lines;
    std::size_t count = 0;
    verify_models(name, [&](const Verification& one) {
      ++count;
      if (!one.intact) lines.push_back(one.name + " " + one.file.filename().string() + ": " + one.problem);
    });
    lines.push_back(std::to_string(count));
    return lines;
  };
  EXPECT_EQ(broken(""), (Strings{"3"}));
  std::string changed = gguf;
  changed[changed.size() / 2] ^= 1;
  const std::string hash = hash_of(HashKind::sha256, changed);
  home.folder().write("hf/hub/models--owner--name/blobs/" + weights, changed);
  home.folder().write("ollama/blobs/sha256-" + blob, changed);
  EXPECT_EQ(broken(""),
            (Strings{"owner/name m.gguf: its hash is " + hash + ", not " + weights,
                     "ollama:spark:latest sha256-" + blob + ": its hash is " + hash + ", not " + blob, "3"}));
  EXPECT_EQ(broken("owner/name").size(), 2u);
  EXPECT_EQ(broken("ollama:spark").back(), "1");
  EXPECT_TRUE(error_of([&] { broken("no/body"); }).starts_with("not_found: no/body: "));
  EXPECT_EQ(error_of([] {
              verify_models(
                  "", [](auto&) {}, [](std::uint64_t, std::uint64_t) { return false; });
            }),
            "cancelled: cancelled");
}

}  // namespace
}  // namespace sparkx::testing
