#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/hub/digest.h"
#include "formats/hub/hub_listing.h"
#include "formats/hub/model_name.h"
#include "support/errors.h"

namespace sparkx::testing {
namespace {

std::string digest_of(HashKind kind, std::string_view content) {
  Digest digest(kind, content.size());
  digest.update(std::as_bytes(std::span(content)));
  return digest.hex();
}

// FIPS 180-4's example, and what `printf 'hello world\n' | git hash-object --stdin` says.
TEST(Digest, IsWhatTheStandardAndGitSay) {
  EXPECT_EQ(digest_of(HashKind::sha256, "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of(HashKind::git_blob, "hello world\n"), "3b18e512dba79e4c8300dd08aeb37f8e728b8dad");
  EXPECT_EQ(digest_of(HashKind::git_blob, ""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

TEST(ModelName, HasRepositoryRevisionAndQuantization) {
  struct Case {
    const char* text;
    ModelSource source;
    const char* repo;
    const char* revision;
    const char* variant;
  };
  for (const Case& c : {Case{"owner/name", ModelSource::hugging_face, "owner/name", "", ""},
                        Case{"hf:owner/name", ModelSource::hugging_face, "owner/name", "", ""},
                        Case{"hf:gpt2", ModelSource::hugging_face, "gpt2", "", ""},
                        Case{"XHToken/Spark-X2.5-1.7B@v1.0:Q4_K_M", ModelSource::hugging_face,
                             "XHToken/Spark-X2.5-1.7B", "v1.0", "Q4_K_M"},
                        Case{"a/b@refs/pr/3", ModelSource::hugging_face, "a/b", "refs/pr/3", ""},
                        Case{"modelscope:a/b@master", ModelSource::modelscope, "a/b", "master", ""},
                        Case{"ollama:qwen3:4b", ModelSource::ollama, "qwen3", "4b", ""},
                        Case{"ollama:hf.co/a/b", ModelSource::ollama, "hf.co/a/b", "latest", ""},
                        Case{"lmstudio:a/b/c.gguf", ModelSource::lm_studio, "a/b/c.gguf", "", ""}}) {
    const auto name = parse_model_name(c.text);
    ASSERT_TRUE(name) << c.text;
    EXPECT_EQ(name->source, c.source) << c.text;
    EXPECT_EQ(name->repo, c.repo) << c.text;
    EXPECT_EQ(name->revision, c.revision) << c.text;
    EXPECT_EQ(name->variant, c.variant) << c.text;
    EXPECT_EQ(to_string(*parse_model_name(to_string(*name))), to_string(*name)) << c.text;
  }
}

TEST(ModelName, IsNoPathAndLeadsNowhereElse) {
  for (const char* text : {"",
                           "name",
                           "/a/b",
                           "./a",
                           "../a",
                           "a/..",
                           "a/b/c",
                           "a/b/",
                           "a//b",
                           "a/b@",
                           "a/b:",
                           "a/b@../../x",
                           "a/b@/x",
                           "a/b@x/../y",
                           "a b/c",
                           "a/b\n",
                           "a--b/c",
                           ".a/b",
                           "a/b.",
                           "a/b:c/d",
                           "a/b:../x",
                           "https://a/b",
                           "ollama:",
                           "ollama:../a",
                           "ollama:a:../b",
                           "ollama:../../a/b:c",
                           "lmstudio:../x",
                           "lmstudio:/etc/passwd",
                           "modelscope:a",
                           "lmstudio:a\\b",
                           "a/b@x\\y",
                           "hf:",
                           "hf:..",
                           "ollama:a/b:.."}) {
    EXPECT_FALSE(parse_model_name(text)) << text;
  }
  EXPECT_FALSE(parse_model_name(std::string(97, 'a') + "/b"));
  EXPECT_TRUE(parse_model_name(std::string(96, 'a') + "/b"));
}

TEST(SafePath, StaysInsideItsFolderOnEverySystem) {
  for (const char* path : {"a", "a/b.json", "Q4_K_M/model-00001-of-00002.gguf", "模型.json", "a b", "console.json"}) {
    EXPECT_TRUE(is_safe_path(path)) << path;
  }
  for (const char* path :
       {"",      "/",   "/etc/passwd", "..",     "../a",     "a/../b", "a/..", ".",        "./a",  "a/./b",
        "a//b",  "a/",  ".hidden",     "a/.git", "C:\\x",    "a\\b",   "c:x",  "a:stream", "a\nb", "a\x1b[31m",
        "a\x7f", "CON", "con.json",    "a/NUL",  "com1.txt", "LPT9",   "a.",   "a ",       "\xff", "a\xc2\x9b"}) {
    EXPECT_FALSE(is_safe_path(path)) << path;
  }
  EXPECT_FALSE(is_safe_path(std::string("a\0b", 3)));
  EXPECT_FALSE(is_safe_path(std::string(256, 'a')));
}

std::vector<HubFile> files(const std::vector<std::string>& paths) {
  std::vector<HubFile> list;
  for (const std::string& path : paths) list.push_back({path, 1, {}});
  return list;
}

// "main: a b c" of what is selected, or the error.
std::string selected(const std::vector<std::string>& paths, const std::string& variant = "",
                     const std::vector<std::string>& patterns = {}) {
  std::string text;
  const std::string error = error_of([&] {
    const Selection selection = select_files(files(paths), variant, patterns, "repo");
    text = selection.main + ":";
    for (const HubFile& file : selection.files) text += " " + file.path;
  });
  return text.empty() ? error : text;
}

TEST(Selection, OfASafetensorsModelIsWhatItNeedsAndNothingElse) {
  EXPECT_EQ(selected({"README.md",
                      "LICENSE",
                      "config.json",
                      "generation_config.json",
                      "chat_template.jinja",
                      "configuration_spark.py",
                      "model-00001-of-00002.safetensors",
                      "model-00002-of-00002.safetensors",
                      "model.safetensors.index.json",
                      "modeling_spark.py",
                      "pytorch_model.bin",
                      "consolidated.safetensors",
                      "model.pt",
                      "training_args.bin",
                      "tokenizer.json",
                      "tokenizer_config.json",
                      "tokenizer.model",
                      "optimizer.pkl",
                      "onnx/model.onnx",
                      "original/model.safetensors",
                      "data.json"}),
            ": config.json generation_config.json chat_template.jinja model-00001-of-00002.safetensors "
            "model-00002-of-00002.safetensors model.safetensors.index.json tokenizer.json tokenizer_config.json");
  EXPECT_EQ(selected({"config.json", "weights.safetensors", "tokenizer.json"}),
            ": config.json tokenizer.json weights.safetensors");
  EXPECT_EQ(selected({"config.json", "model.safetensors", "a-Q4_0.gguf"}), ": config.json model.safetensors");
}

TEST(Selection, TakesNoPicklesAndNoProgramsWhateverIsAskedFor) {
  EXPECT_EQ(selected({"model.bin", "model.py", "model.pt", "config.json"}, "", {"*"}), "config.json: config.json");
  EXPECT_TRUE(selected({"model.bin", "model.py"}, "", {"*"}).starts_with("not_found: ")) << "nothing of use";
  EXPECT_TRUE(
      selected({"config.json", "pytorch_model.bin"}).starts_with("not_found: repo: there is no model in a format"));
}

TEST(Selection, FindsAGgufFileByItsQuantizationWhateverTheCase) {
  const std::vector<std::string> repo{"README.md",          "m-Q4_K_M.gguf", "m-Q4_K_S.gguf",        "m.Q8_0.gguf",
                                      "m-UD-Q6_K_XL.gguf",  "m-BF16.gguf",   "mmproj-BF16.gguf",     "imatrix.gguf",
                                      "m-q5_k_m-imat.gguf", "m-IQ4_XS.gguf", "m-00001-of-00002.gguf"};
  EXPECT_EQ(selected(repo, "Q4_K_M"), "m-Q4_K_M.gguf: m-Q4_K_M.gguf");
  EXPECT_EQ(selected(repo, "q4_k_m"), "m-Q4_K_M.gguf: m-Q4_K_M.gguf");
  EXPECT_EQ(selected(repo, "q8_0"), "m.Q8_0.gguf: m.Q8_0.gguf");
  EXPECT_EQ(selected(repo, "bf16"), "m-BF16.gguf: m-BF16.gguf");
  EXPECT_EQ(selected(repo, "Q6_K_XL"), "m-UD-Q6_K_XL.gguf: m-UD-Q6_K_XL.gguf");
  EXPECT_EQ(selected(repo, "UD-Q6_K_XL"), "m-UD-Q6_K_XL.gguf: m-UD-Q6_K_XL.gguf");
  EXPECT_EQ(selected(repo, "Q5_K_M"), "m-q5_k_m-imat.gguf: m-q5_k_m-imat.gguf");
  EXPECT_EQ(selected(repo, "M-IQ4_XS.GGUF"), "m-IQ4_XS.gguf: m-IQ4_XS.gguf");
  EXPECT_EQ(selected(repo, "m-iq4_xs"), "m-IQ4_XS.gguf: m-IQ4_XS.gguf");
}

TEST(Selection, AMissingOrUnclearQuantizationIsAnErrorWithAList) {
  const std::string missing = selected({"m-Q4_K_M.gguf", "m-Q8_0.gguf"}, "Q4_K");
  EXPECT_EQ(missing, "not_found: repo: no GGUF file is called Q4_K; there are:\n  m-Q4_K_M.gguf\n  m-Q8_0.gguf");
  EXPECT_EQ(selected({"a-Q4_0.gguf", "b-Q4_0.gguf"}, "Q4_0"),
            "invalid_argument: repo: Q4_0 is in the names of several files:\n  a-Q4_0.gguf\n  b-Q4_0.gguf");
  EXPECT_EQ(selected({"config.json", "model.safetensors"}, "Q4_0"),
            "not_found: repo: there are no GGUF files, so none for \"Q4_0\"");
  EXPECT_EQ(selected({"m-Q4_K_M.gguf", "m-Q8_0.gguf"}),
            "invalid_argument: repo: there are several GGUF files; choose one by adding one of:\n"
            "  :Q4_K_M  (m-Q4_K_M.gguf)\n  :Q8_0  (m-Q8_0.gguf)");
  EXPECT_EQ(selected({"only-Q8_0.gguf", "README.md"}), "only-Q8_0.gguf: only-Q8_0.gguf");
}

TEST(Selection, ASplitFileIsAllOfItsParts) {
  const std::vector<std::string> repo{"Q4_0/m-Q4_0-00002-of-00002.gguf", "Q4_0/m-Q4_0-00001-of-00002.gguf",
                                      "Q8_0/m-Q8_0-00001-of-00003.gguf", "Q8_0/m-Q8_0-00003-of-00003.gguf"};
  EXPECT_EQ(selected(repo, "q4_0"),
            "Q4_0/m-Q4_0-00001-of-00002.gguf: Q4_0/m-Q4_0-00001-of-00002.gguf "
            "Q4_0/m-Q4_0-00002-of-00002.gguf");
  EXPECT_EQ(selected(repo, "Q8_0"), "not_found: repo: of the 3 parts of Q8_0/m-Q8_0 only 2 are there");
}

TEST(Selection, PatternsFitAPathOrItsLastPart) {
  const std::vector<std::string> repo{"config.json", "tokenizer.json", "a/m-Q4_0.gguf", "b/m-Q4_0.gguf", "x.py"};
  EXPECT_EQ(selected(repo, "", {"*.json"}), ": config.json tokenizer.json");
  EXPECT_EQ(selected(repo, "", {"a/*"}), "a/m-Q4_0.gguf: a/m-Q4_0.gguf");
  EXPECT_EQ(selected(repo, "", {"m-Q?_0.gguf", "c*g.json"}), ": config.json a/m-Q4_0.gguf b/m-Q4_0.gguf");
  EXPECT_TRUE(selected(repo, "", {"nothing"}).starts_with("not_found: ")) << selected(repo, "", {"nothing"});
}

TEST(Selection, EveryGgufModelIsFoundByTheVariantItIsListedUnder) {
  const std::vector<HubFile> list =
      files({"m-Q4_K_M.gguf", "m-UD-Q4_K_M.gguf", "m-UD-Q6_K.gguf", "m.Q8_0.gguf", "plain.gguf",
             "sub/m-F16-00001-of-00002.gguf", "sub/m-F16-00002-of-00002.gguf", "a/m-Q2_K.gguf", "b/m-Q2_K.gguf",
             "a/模型 1.gguf", "b/模型 1.gguf"});
  const std::vector<GgufFiles> models = gguf_models(list);
  ASSERT_EQ(models.size(), 10u);
  for (const GgufFiles& model : models) {
    const std::string variant = variant_of(model, models);
    EXPECT_EQ(select_files(list, variant, {}, "repo").main, model.parts.front().path);
    const auto name = parse_model_name("owner/name:" + variant);
    ASSERT_TRUE(name) << variant;
    EXPECT_EQ(name->variant, variant);
  }
}

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

std::string hugging_face(const std::string& siblings) {
  return std::string(R"({"sha": ")") + kCommit + R"(", "siblings": [)" + siblings + "]}";
}

TEST(HubListing, HasSizesAndHashes) {
  const HubListing listing = parse_hugging_face_listing(
      hugging_face(R"({"rfilename": "config.json", "size": 12, "blobId": "3B18E512DBA79E4C8300DD08AEB37F8E728B8DAD"},
                      {"rfilename": "m.safetensors", "size": 5, "blobId": "3b18e512dba79e4c8300dd08aeb37f8e728b8dad", "lfs":
                       {"sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "size": 7}},
                      {"rfilename": ".gitattributes"}, {"rfilename": "a/.ipynb_checkpoints/x.json"}, {"rfilename": "plain.json"})"),
      "host");
  EXPECT_EQ(listing.commit, kCommit);
  ASSERT_EQ(listing.files.size(), 3u);
  EXPECT_EQ(listing.files[0].hash.kind, HashKind::git_blob);
  EXPECT_EQ(listing.files[0].hash.hex, "3b18e512dba79e4c8300dd08aeb37f8e728b8dad");
  EXPECT_EQ(listing.files[1].hash.kind, HashKind::sha256);
  EXPECT_EQ(listing.files[1].size, 7u);
  EXPECT_EQ(listing.files[2].hash.kind, HashKind::none);
  EXPECT_FALSE(listing.files[2].size);
}

TEST(HubListing, WhatIsNoListingOrUnsafeIsRefused) {
  const auto error = [](const std::string& text) {
    return error_of([&] { parse_hugging_face_listing(text, "host"); });
  };
  EXPECT_TRUE(error("<html>").starts_with("corrupt: host:1:1: ")) << error("<html>");
  EXPECT_EQ(error("{}"), "corrupt: host: does not say which commit it lists");
  EXPECT_EQ(error(R"({"sha": "../../etc"})"), "corrupt: host: does not say which commit it lists");
  EXPECT_EQ(error(hugging_face(R"({"rfilename": "../../.bashrc.json"})")),
            "corrupt: host: lists a file called \"../../.bashrc.json\", a name that is not safe to write");
  EXPECT_EQ(error(hugging_face(R"({"rfilename": "/etc/config.json"})")),
            "corrupt: host: lists a file called \"/etc/config.json\", a name that is not safe to write");
  EXPECT_EQ(error(hugging_face(R"({"rfilename": "a\\b.gguf"})")),
            "corrupt: host: lists a file called \"a\\\\b.gguf\", a name that is not safe to write");
  EXPECT_EQ(error(hugging_face(R"({"rfilename": "a.json"}, {"rfilename": "a.json"})")),
            "corrupt: host: lists a.json twice");
  EXPECT_EQ(error(hugging_face(R"({"rfilename": "a.json", "size": -1})")),
            "corrupt: host: gives a file no possible size");
  EXPECT_EQ(error(hugging_face(R"({"rfilename": "a.json", "size": 123456789012345678901234567890})")),
            "corrupt: host: gives a file no possible size");
}

TEST(HubListing, OfModelScopeHasFilesButNoFolders) {
  const HubListing listing = parse_modelscope_listing(
      R"({"Code": 200, "Data": {"Files": [{"Type": "tree", "Path": "a"}, {"Type": "blob", "Path": "a/x.json", "Size": 3,
          "Sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}]}})",
      "host");
  ASSERT_EQ(listing.files.size(), 1u);
  EXPECT_EQ(listing.files[0].path, "a/x.json");
  EXPECT_EQ(listing.files[0].hash.kind, HashKind::sha256);
  EXPECT_EQ(error_of([] { parse_modelscope_listing(R"({"Code": 10010, "Message": "no such model"})", "host"); }),
            "not_found: host says: \"no such model\"");
}

TEST(OllamaManifest, NamesTheBlobOfTheModel) {
  const OllamaModel model = parse_ollama_manifest(
      R"({"schemaVersion": 2, "layers": [
          {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:00", "size": 1},
          {"mediaType": "application/vnd.ollama.image.model", "size": 99,
           "digest": "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}]})",
      "file");
  EXPECT_EQ(model.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(model.size, 99u);
  EXPECT_EQ(error_of([] { parse_ollama_manifest(R"({"layers": []})", "file"); }),
            "unsupported: file: has no model of its own");
  EXPECT_EQ(
      error_of([] {
        parse_ollama_manifest(
            R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../x", "size": 1}]})",
            "file");
      }),
      "corrupt: file: names no model");
}

}  // namespace
}  // namespace sparkx::testing
