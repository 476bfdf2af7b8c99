#include "engine/text_tokenizer.h"

#include <utility>

#include "core/error.h"
#include "engine/builtin_model.h"
#include "text/chat_format.h"
#include "text/tokenizer_json.h"

namespace sparkx {

std::vector<MemoryFile> builtin_files() {
  std::vector<MemoryFile> files;
  for (const BuiltinFile& file : builtin_model_files()) files.push_back({file.name, file.bytes});
  return files;
}

std::optional<Tokenizer> read_checkpoint_tokenizer(const Checkpoint& checkpoint) {
  const std::optional<std::string> text = checkpoint.text_file("tokenizer.json");
  if (!text) return std::nullopt;
  TokenizerDescription description = parse_tokenizer_json(*text, checkpoint.display_name("tokenizer.json"));
  if (const std::optional<std::string> config = checkpoint.text_file("tokenizer_config.json")) {
    apply_tokenizer_config(description, *config, checkpoint.display_name("tokenizer_config.json"));
  }
  return Tokenizer(std::move(description));
}

TextTokenizer::TextTokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

TextTokenizer TextTokenizer::load(const std::filesystem::path& folder) {
  return TextTokenizer(std::make_shared<const Impl>(Impl{Tokenizer(read_tokenizer(folder))}));
}

TextTokenizer TextTokenizer::builtin() {
  const Checkpoint checkpoint = Checkpoint::open(kBuiltinName, builtin_files());
  return TextTokenizer(std::make_shared<const Impl>(Impl{*read_checkpoint_tokenizer(checkpoint)}));
}

std::vector<TokenId> TextTokenizer::encode(std::string_view text, bool added_tokens) const {
  return impl_->tokenizer.encode(text, added_tokens ? AddedTokens::all : AddedTokens::none);
}

std::vector<TokenId> TextTokenizer::encode_chat(const std::vector<ChatMessage>& messages,
                                                const ChatOptions& options) const {
  const ChatPrompt prompt = render_chat(messages, options);
  return impl_->tokenizer.encode(prompt.stretches());
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

}  // namespace sparkx
