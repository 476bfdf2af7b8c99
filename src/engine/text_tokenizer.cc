#include "engine/text_tokenizer.h"

#include <fmt/core.h>

#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/printable.h"
#include "engine/builtin_model.h"
#include "engine/chat.h"
#include "formats/gguf_model.h"
#include "text/tokenizer_json.h"

namespace sparkx {
namespace {

constexpr std::string_view kTokenizerFile = "tokenizer.json";
constexpr std::string_view kConfigFile = "tokenizer_config.json";
constexpr std::string_view kTemplateFile = "chat_template.jinja";
constexpr std::uint64_t kMaxTextBytes = std::uint64_t{256} << 20;  // as Checkpoint::text_file has it

}  // namespace

std::vector<MemoryFile> builtin_files() {
  std::vector<MemoryFile> files;
  for (const BuiltinFile& file : builtin_model_files()) files.push_back({file.name, file.bytes});
  return files;
}

std::optional<TextTokenizer::Impl> TextTokenizer::Impl::read(const Checkpoint& checkpoint) {
  if (const GgufMetadata* metadata = checkpoint.gguf_metadata()) return read(*metadata);
  const std::optional<std::string> text = checkpoint.text_file(kTokenizerFile);
  if (!text) return std::nullopt;
  TokenizerDescription description = parse_tokenizer_json(*text, checkpoint.display_name(kTokenizerFile));
  ChatFormat chat_format;
  if (const std::optional<std::string> config = checkpoint.text_file(kConfigFile)) {
    apply_tokenizer_config(description, *config, checkpoint.display_name(kConfigFile));
    chat_format.read_config(*config, checkpoint.display_name(kConfigFile));
  }
  if (std::optional<std::string> source = checkpoint.text_file(kTemplateFile)) {
    chat_format.set_template(*std::move(source), checkpoint.display_name(kTemplateFile));
  }
  return Impl{Tokenizer(std::move(description)), std::move(chat_format)};
}

std::optional<TextTokenizer::Impl> TextTokenizer::Impl::read(const GgufMetadata& metadata) {
  std::optional<TokenizerDescription> description = gguf_tokenizer(metadata);
  if (!description) return std::nullopt;
  ChatFormat chat_format;
  for (auto& [name, source] : gguf_chat_templates(metadata)) {
    chat_format.add_template(name, std::move(source), fmt::format("{}: chat template {}", metadata.file(), name));
  }
  const std::pair<const char*, std::optional<TokenId>> special[] = {{"bos_token", description->bos},
                                                                    {"eos_token", description->eos},
                                                                    {"pad_token", description->pad},
                                                                    {"unk_token", description->unknown}};
  for (const auto& [name, id] : special) {
    if (id) chat_format.set_special_token(name, description->tokens[static_cast<std::size_t>(*id)]);
  }
  return Impl{Tokenizer(*std::move(description)), std::move(chat_format)};
}

TextTokenizer::TextTokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

TextTokenizer TextTokenizer::load(const std::filesystem::path& model) {
  if (std::filesystem::is_regular_file(model)) {
    const ByteSource file = ByteSource::open(model);
    std::optional<Impl> impl = Impl::read(read_gguf(file).metadata);
    if (!impl) throw_error(ErrorCode::not_found, "{}: has no tokenizer", file.name());
    return TextTokenizer(std::make_shared<const Impl>(*std::move(impl)));
  }
  const std::filesystem::path& folder = model;
  ChatFormat chat_format;
  const auto read = [&folder](std::string_view name) {
    return ByteSource::open(folder / name).read_all(kMaxTextBytes);
  };
  if (std::filesystem::exists(folder / kConfigFile)) {
    chat_format.read_config(read(kConfigFile), (folder / kConfigFile).string());
  }
  if (std::filesystem::exists(folder / kTemplateFile)) {
    chat_format.set_template(read(kTemplateFile), (folder / kTemplateFile).string());
  }
  return TextTokenizer(std::make_shared<const Impl>(Impl{Tokenizer(read_tokenizer(folder)), std::move(chat_format)}));
}

TextTokenizer TextTokenizer::builtin() {
  const Checkpoint checkpoint = Checkpoint::open(kBuiltinName, builtin_files());
  return TextTokenizer(std::make_shared<const Impl>(std::move(*Impl::read(checkpoint))));
}

std::vector<TokenId> TextTokenizer::encode(std::string_view text, bool added_tokens) const {
  return impl_->tokenizer.encode(text, added_tokens ? AddedTokens::all : AddedTokens::none);
}

std::string TextTokenizer::render_chat(const ChatRequest& request) const {
  return render_request(request, impl_->chat_format).text();
}

std::vector<TokenId> TextTokenizer::encode_chat(const ChatRequest& request) const {
  return sparkx::encode_chat(impl_->tokenizer, render_request(request, impl_->chat_format),
                             request.parse_special_content);
}

std::string TextTokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  return impl_->tokenizer.decode(ids, skip_special_tokens);
}

std::optional<TokenId> TextTokenizer::find(std::string_view token) const {
  return impl_->tokenizer.find(token);
}

std::int64_t TextTokenizer::vocab_size() const {
  return impl_->tokenizer.vocab_size();
}

std::string TextTokenizer::difference(const TextTokenizer& other) const {
  if (vocab_size() != other.vocab_size()) {
    return fmt::format("the vocabularies have {} and {} tokens", vocab_size(), other.vocab_size());
  }
  for (TokenId id = 0; id < vocab_size(); ++id) {
    const std::string_view ours = impl_->tokenizer.token_bytes(id), theirs = other.impl_->tokenizer.token_bytes(id);
    if (ours != theirs) {
      return fmt::format("token {} is {} in the one and {} in the other", id, in_quotes(ours), in_quotes(theirs));
    }
  }
  return "";
}

}  // namespace sparkx
