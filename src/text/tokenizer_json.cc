#include "text/tokenizer_json.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "core/printable.h"
#include "core/unicode.h"
#include "text/vocabulary_reader.h"

namespace sparkx {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 28;
constexpr std::size_t kMaxMissingIds = 65536;
constexpr std::size_t kMaxSteps = 32;  // each costs time for every text, and a pattern memory, too

// A value from the file in a message.
std::string shown(const json::Value& value) {
  constexpr std::size_t kLongest = 200;
  const std::string text = json::print(value, {.ensure_ascii = true});
  return text.size() > kLongest ? text.substr(0, kLongest) + "…" : text;
}

class Reader {
 public:
  explicit Reader(std::string_view what) : what_(what) { out_.source = what; }

  TokenizerDescription read(std::string_view text) {
    const json::Streamed tables[] = {
        {{"model", "vocab"}, [this](json::Part part, std::string_view t) { vocabulary_.take(part, t); }},
        {{"model", "merges"}, [this](json::Part part, std::string_view t) { merges_.take(part, t); }}};
    const json::Value root = json::parse(text, what_, {.streamed = tables});
    expect_object(root, "the document");
    only_keys(root, "the document",
              {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
               "decoder", "model"});
    if (const json::Value* version = root.find("version"); version && !(*version == json::Value("1.0"))) {
      unsupported("version", "is {}; sparkx supports \"1.0\"", shown(*version));
    }
    for (const std::string_view key : {"truncation", "padding"}) {
      const json::Value* value = root.find(key);
      if (value && !value->is_null()) out_.warnings.push_back(fmt::format("{}: \"{}\" is left aside", what_, key));
    }
    if (const json::Value* normalizer = root.find("normalizer"); normalizer && !normalizer->is_null()) {
      read_normalizer(*normalizer, "normalizer");
    }
    read_pre_tokenizer(member(root, "", "pre_tokenizer"), "pre_tokenizer");
    if (out_.pre_tokenizer.empty() || out_.pre_tokenizer.back().kind != PreTokenizerStep::Kind::byte_level) {
      unsupported("pre_tokenizer", "does not end with ByteLevel");
    }
    read_byte_level(member(root, "", "decoder"), "decoder");
    read_model(member(root, "", "model"));
    if (const json::Value* added = root.find("added_tokens")) read_added_tokens(*added);
    if (const json::Value* post = root.find("post_processor"); post && !post->is_null()) {
      read_post_processor(*post, "post_processor");
    }
    return std::move(out_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void unsupported(std::string_view field, fmt::format_string<Args...> format, Args&&... args) const {
    throw_error(ErrorCode::unsupported, "{}: {} {}", what_, field, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  [[noreturn]] void corrupt(std::string_view field, fmt::format_string<Args...> format, Args&&... args) const {
    throw_error(ErrorCode::corrupt, "{}: {} {}", what_, field, fmt::format(format, std::forward<Args>(args)...));
  }

  void expect_object(const json::Value& value, std::string_view field) const {
    if (!value.is_object()) corrupt(field, "is of type {}; expected an object", value.type_name());
  }

  // A key that sparkx does not know may change the result.
  void only_keys(const json::Value& object, std::string_view field,
                 std::initializer_list<std::string_view> known) const {
    for (const json::Member& member : object.as_object()) {
      if (std::find(known.begin(), known.end(), member.first) == known.end()) {
        unsupported(field, "has the option {}, which sparkx does not know", in_quotes(member.first));
      }
    }
  }

  static std::string join(std::string_view field, std::string_view key) {
    return field.empty() ? std::string(key) : fmt::format("{}.{}", field, key);
  }

  const json::Value& member(const json::Value& object, std::string_view field, std::string_view key) const {
    const json::Value* value = object.find(key);
    if (!value || value->is_null()) corrupt(join(field, key), "is missing");
    return *value;
  }

  const std::string& string_member(const json::Value& object, std::string_view field, std::string_view key) const {
    const json::Value& value = member(object, field, key);
    if (!value.is_string()) corrupt(join(field, key), "is of type {}; expected a string", value.type_name());
    return value.as_string();
  }

  bool bool_member(const json::Value& object, std::string_view field, std::string_view key, bool otherwise) const {
    const json::Value* value = object.find(key);
    if (!value || value->is_null()) return otherwise;
    if (!value->is_bool()) corrupt(join(field, key), "is of type {}; expected a boolean", value->type_name());
    return value->as_bool();
  }

  std::int64_t integer(const json::Value& value, std::string_view field) const {
    // 18 digits fit, and no id has more.
    if (!value.is_integer() || value.as_number().text.size() > 18)
      corrupt(field, "is {}; expected an id", shown(value));
    return value.as_int64();
  }

  const json::Array& array_member(const json::Value& object, std::string_view field, std::string_view key) const {
    const json::Value& list = member(object, field, key);
    if (!list.is_array()) corrupt(join(field, key), "is of type {}; expected an array", list.type_name());
    return list.as_array();
  }

  // Calls read(entry, field) for each component of a Sequence.
  template <typename Read>
  void read_sequence(const json::Value& sequence, const std::string& field, std::string_view key, Read read) const {
    only_keys(sequence, field, {"type", key});
    const json::Array& list = array_member(sequence, field, key);
    for (std::size_t i = 0; i < list.size(); ++i) read(list[i], fmt::format("{}.{}[{}]", field, key, i));
  }

  void read_normalizer(const json::Value& step, const std::string& field) {
    using Kind = NormalizerStep::Kind;
    constexpr std::pair<std::string_view, Kind> kForms[] = {
        {"NFC", Kind::nfc}, {"NFD", Kind::nfd}, {"NFKC", Kind::nfkc}, {"NFKD", Kind::nfkd}};
    expect_object(step, field);
    const std::string& type = string_member(step, field, "type");
    if (out_.normalizer.size() == kMaxSteps) unsupported("normalizer", "has more than {} steps", kMaxSteps);
    for (const auto& [name, kind] : kForms) {
      if (type != name) continue;
      only_keys(step, field, {"type"});
      out_.normalizer.push_back({.kind = kind, .pattern = "", .content = ""});
      return;
    }
    if (type == "Sequence") {
      read_sequence(step, field, "normalizers",
                    [&](const json::Value& entry, const std::string& where) { read_normalizer(entry, where); });
    } else if (type == "Replace") {
      only_keys(step, field, {"type", "pattern", "content"});
      out_.normalizer.push_back({.kind = Kind::replace,
                                 .pattern = read_pattern(step, field),
                                 .content = string_member(step, field, "content")});
    } else if (type == "Prepend") {
      only_keys(step, field, {"type", "prepend"});
      out_.normalizer.push_back(
          {.kind = Kind::prepend, .pattern = "", .content = string_member(step, field, "prepend")});
    } else if (type == "Strip") {
      only_keys(step, field, {"type", "strip_left", "strip_right"});
      out_.normalizer.push_back({.kind = Kind::strip,
                                 .pattern = "",
                                 .content = "",
                                 .strip_left = bool_member(step, field, "strip_left", false),
                                 .strip_right = bool_member(step, field, "strip_right", false)});
    } else {
      unsupported(field, "{} is not supported", printable(type));
    }
  }

  void read_pre_tokenizer(const json::Value& step, const std::string& field) {
    expect_object(step, field);
    const std::string& type = string_member(step, field, "type");
    if (out_.pre_tokenizer.size() == kMaxSteps) unsupported("pre_tokenizer", "has more than {} steps", kMaxSteps);
    if (!out_.pre_tokenizer.empty() && out_.pre_tokenizer.back().kind == PreTokenizerStep::Kind::byte_level) {
      unsupported(field, "{} after ByteLevel is not supported", printable(type));
    }
    if (type == "Sequence") {
      read_sequence(step, field, "pretokenizers",
                    [&](const json::Value& entry, const std::string& where) { read_pre_tokenizer(entry, where); });
    } else if (type == "Split") {
      read_split(step, field);
    } else if (type == "Digits") {
      only_keys(step, field, {"type", "individual_digits"});
      out_.pre_tokenizer.push_back({.kind = PreTokenizerStep::Kind::digits,
                                    .pattern = "",
                                    .individual_digits = bool_member(step, field, "individual_digits", false)});
    } else if (type == "ByteLevel") {
      read_byte_level(step, field);
      out_.pre_tokenizer.push_back({.kind = PreTokenizerStep::Kind::byte_level,
                                    .pattern = "",
                                    .prefix_space = bool_member(step, field, "add_prefix_space", true),
                                    .with_pattern = bool_member(step, field, "use_regex", true)});
    } else {
      unsupported(field, "{} is not supported", printable(type));
    }
  }

  void read_split(const json::Value& step, const std::string& field) {
    only_keys(step, field, {"type", "pattern", "behavior", "invert"});
    using Keep = PreTokenizerStep::Keep;
    const std::string& behavior = string_member(step, field, "behavior");
    const bool invert = bool_member(step, field, "invert", false);  // what is between matches counts as the match
    if (behavior != "Isolated" && behavior != "Removed") {
      unsupported(join(field, "behavior"), "is {}; sparkx supports \"Isolated\" and \"Removed\"", in_quotes(behavior));
    }
    const Keep keep = behavior == "Isolated" ? Keep::all : invert ? Keep::matches : Keep::rest;
    out_.pre_tokenizer.push_back(
        {.kind = PreTokenizerStep::Kind::split, .pattern = read_pattern(step, field), .keep = keep});
  }

  // {"Regex": …} or {"String": …}, as a regular expression.
  std::string read_pattern(const json::Value& step, std::string_view field) const {
    const json::Value& pattern = member(step, field, "pattern");
    if (!pattern.is_object() || pattern.as_object().size() != 1) corrupt(join(field, "pattern"), "is not one pattern");
    const auto& [kind, text] = pattern.as_object()[0];
    if (kind != "Regex" && kind != "String")
      unsupported(join(field, "pattern"), "of kind {} is not supported", in_quotes(kind));
    if (!text.is_string()) corrupt(join(field, "pattern"), "is of type {}; expected a string", text.type_name());
    if (kind == "Regex") return text.as_string();
    if (text.as_string().empty()) unsupported(join(field, "pattern"), "is an empty string; that is not supported");
    std::string literal;
    for (std::string_view rest = text.as_string(); !rest.empty();) {
      const Utf8Character character = decode_utf8(rest);
      literal += fmt::format("\\x{{{:X}}}", static_cast<std::uint32_t>(character.code_point));
      rest.remove_prefix(character.size);
    }
    return literal;
  }

  // As a post-processor or decoder its options touch offsets only.
  void read_byte_level(const json::Value& component, const std::string& field) const {
    expect_object(component, field);
    const std::string& type = string_member(component, field, "type");
    if (type != "ByteLevel") unsupported(field, "{} is not supported", printable(type));
    only_keys(component, field, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }

  // Post-processors move offsets and put markers around a text for whoever asks for them. sparkx does not ask (chat
  // templates write the markers themselves), but checks them.
  void read_post_processor(const json::Value& step, const std::string& field) const {
    expect_object(step, field);
    const std::string& type = string_member(step, field, "type");
    if (type == "Sequence") {
      read_sequence(step, field, "processors",
                    [&](const json::Value& entry, const std::string& where) { read_post_processor(entry, where); });
    } else if (type == "TemplateProcessing") {
      read_template(step, field);
    } else {
      read_byte_level(step, field);
    }
  }

  void read_template(const json::Value& step, const std::string& field) const {
    only_keys(step, field, {"type", "single", "pair", "special_tokens"});
    const json::Value& tokens = member(step, field, "special_tokens");
    expect_object(tokens, join(field, "special_tokens"));
    for (const auto& [name, token] : tokens.as_object()) {
      const std::string where = fmt::format("{}.special_tokens[{}]", field, in_quotes(name));
      expect_object(token, where);
      for (const json::Value& id : array_member(token, where, "ids")) {
        const std::int64_t value = integer(id, join(where, "ids"));
        if (value < 0 || value >= static_cast<std::int64_t>(out_.tokens.size()))
          corrupt(join(where, "ids"), "names token {}, which is not in the vocabulary", value);
      }
    }
    const json::Array& pieces = array_member(step, field, "single");
    std::size_t texts = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::string where = fmt::format("{}.single[{}]", field, i);
      expect_object(pieces[i], where);
      if (pieces[i].find("Sequence")) {
        ++texts;
        continue;
      }
      const json::Value& marker = member(pieces[i], where, "SpecialToken");
      expect_object(marker, join(where, "SpecialToken"));
      const std::string& id = string_member(marker, join(where, "SpecialToken"), "id");
      if (!tokens.find(id)) corrupt(where, "names {}, which is not in special_tokens", in_quotes(id));
    }
    if (texts != 1) corrupt(join(field, "single"), "has the text {} times; expected once", texts);
  }

  void read_model(const json::Value& model) {
    expect_object(model, "model");
    if (const std::string& type = string_member(model, "model", "type"); type != "BPE") {
      unsupported("model", "{} is not supported", printable(type));
    }
    only_keys(model, "model",
              {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
               "byte_fallback", "ignore_merges", "vocab", "merges"});
    const json::Value* dropout = model.find("dropout");
    if (dropout && !dropout->is_null() && !(dropout->is_number() && dropout->as_double() == 0.0)) {
      unsupported("model.dropout", "is {}; sparkx supports null", shown(*dropout));
    }
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json::Value* value = model.find(key);
      if (value && !value->is_null() && !(*value == json::Value(""))) {
        unsupported(join("model", key), "is {}; sparkx supports null", shown(*value));
      }
    }
    if (bool_member(model, "model", "byte_fallback", false)) unsupported("model.byte_fallback", "is not supported");
    out_.fuse_unknown = bool_member(model, "model", "fuse_unk", false);
    out_.ignore_merges = bool_member(model, "model", "ignore_merges", false);

    expect_object(member(model, "model", "vocab"), "model.vocab");
    read_vocabulary();
    if (const json::Value* unknown = model.find("unk_token"); unknown && !unknown->is_null()) {
      const std::string& text = string_member(model, "model", "unk_token");
      out_.unknown = index_.find(text);
      if (!out_.unknown) corrupt("model.unk_token", "{} is not in the vocabulary", in_quotes(text));
    }
    array_member(model, "model", "merges");
    read_merges();
  }

  void read_vocabulary() {
    if (vocabulary_.wrong()) corrupt("model.vocab", "is {}; expected an id", *vocabulary_.wrong());
    vocabulary_size_ = vocabulary_.entries().size();
    out_.tokens.reserve(vocabulary_size_);
    for (VocabularyReader::Entry& entry : vocabulary_.entries()) {
      if (entry.token.empty()) corrupt("model.vocab", "gives id {} to an empty token", entry.id);
      place_token(entry.id, std::move(entry.token), "model.vocab");
    }
    index_ = TokenIndex(out_.tokens, what_);
  }

  // Some vocabularies leave ids out (GPT-4o's does), but a wild id must not cost memory.
  void place_token(std::int64_t id, std::string text, const std::string& field) {
    const std::size_t limit = vocabulary_size_ + kMaxMissingIds + out_.added_tokens.size();
    if (id < 0 || static_cast<std::uint64_t>(id) >= limit) {
      corrupt(field, "gives {} the id {}, but model.vocab has {} entries; ids must be below {}", in_quotes(text), id,
              vocabulary_size_, limit);
    }
    const auto i = static_cast<std::size_t>(id);
    if (i >= out_.tokens.size()) out_.tokens.resize(i + 1);
    if (!out_.tokens[i].empty())
      corrupt(field, "gives id {} to {} and to {}", id, in_quotes(out_.tokens[i]), in_quotes(text));
    out_.tokens[i] = std::move(text);
  }

  void read_merges() {
    if (merges_.wrong()) {
      corrupt("model.merges", "has at {} an entry that is neither \"left right\" nor a pair of strings",
              *merges_.wrong());
    }
    constexpr std::size_t kTogether = 64;
    std::vector<std::string_view> parts;
    std::vector<TokenId> ids;
    out_.merges.reserve(merges_.size());
    for (std::size_t begin = 0; begin < merges_.size(); begin += kTogether) {
      parts.clear();
      for (std::size_t i = begin; i < std::min(begin + kTogether, merges_.size()); ++i) {
        parts.insert(parts.end(), {merges_.left(i), merges_.right(i)});
      }
      ids.resize(parts.size());
      index_.find(parts, ids);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] >= 0) continue;
        corrupt("model.merges", "entry {} names {}, which is not in the vocabulary", begin + i / 2,
                in_quotes(parts[i]));
      }
      for (std::size_t i = 0; i < ids.size(); i += 2) out_.merges.emplace_back(ids[i], ids[i + 1]);
    }
  }

  void read_added_tokens(const json::Value& list) {
    if (list.is_null()) return;
    if (!list.is_array()) corrupt("added_tokens", "is of type {}; expected an array", list.type_name());
    auto next = static_cast<std::int64_t>(vocabulary_size_);  // the id of a token that the vocabulary lacks
    for (std::size_t i = 0; i < list.as_array().size(); ++i) {
      const json::Value& entry = list.as_array()[i];
      const std::string field = fmt::format("added_tokens[{}]", i);
      expect_object(entry, field);
      only_keys(entry, field, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      AddedTokenDescription token;
      token.content = string_member(entry, field, "content");
      token.special = bool_member(entry, field, "special", false);
      token.lstrip = bool_member(entry, field, "lstrip", false);
      token.rstrip = bool_member(entry, field, "rstrip", false);
      token.single_word = bool_member(entry, field, "single_word", false);
      token.normalized = bool_member(entry, field, "normalized", !token.special);
      const std::int64_t id = integer(member(entry, field, "id"), join(field, "id"));
      // A token that the vocabulary lacks gets the next id, whatever the file says; so the file must say that.
      const std::optional<TokenId> known = index_.find(token.content);
      const std::int64_t expected = known ? *known : next;
      if (id != expected) {
        corrupt(join(field, "id"), "is {} for {}; expected {}{}", id, in_quotes(token.content), expected,
                known ? " as in model.vocab" : ", the next id");
      }
      if (!known) place_token(id, token.content, field);
      next = std::max(next, id + 1);
      token.id = static_cast<TokenId>(id);
      out_.added_tokens.push_back(std::move(token));
    }
  }

  std::string what_;
  VocabularyReader vocabulary_;
  MergesReader merges_;
  std::size_t vocabulary_size_ = 0;  // entries of model.vocab
  TokenIndex index_;                 // of what model.vocab has of out_.tokens
  TokenizerDescription out_;
};

}  // namespace

TokenizerDescription parse_tokenizer_json(std::string_view text, std::string_view what) {
  return Reader(what).read(text);
}

void apply_tokenizer_config(TokenizerDescription& description, std::string_view text, std::string_view what) {
  const json::Value config = json::parse(text, what);
  if (!config.is_object()) {
    throw_error(ErrorCode::corrupt, "{}: the document is of type {}; expected an object", what, config.type_name());
  }
  const std::pair<std::string_view, std::optional<TokenId>&> fields[] = {
      {"bos_token", description.bos}, {"eos_token", description.eos}, {"pad_token", description.pad}};
  for (const auto& [key, id] : fields) {
    const json::Value* value = config.find(key);
    if (value && value->is_object()) value = value->find("content");
    if (!value || value->is_null()) continue;
    if (!value->is_string()) {
      throw_error(ErrorCode::corrupt, "{}: {} is of type {}; expected a string", what, key, value->type_name());
    }
    const auto found = std::find(description.tokens.begin(), description.tokens.end(), value->as_string());
    if (found == description.tokens.end() || found->empty())
      throw_error(ErrorCode::corrupt, "{}: {} {} is not in the vocabulary", what, key, in_quotes(value->as_string()));
    id = static_cast<TokenId>(found - description.tokens.begin());
  }
}

TokenizerDescription read_tokenizer(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer.json";
  TokenizerDescription description =
      parse_tokenizer_json(ByteSource::open(file).read_all(kMaxFileBytes), file.string());
  const std::filesystem::path config = folder / "tokenizer_config.json";
  if (std::filesystem::exists(config)) {
    apply_tokenizer_config(description, ByteSource::open(config).read_all(kMaxFileBytes), config.string());
  }
  return description;
}

}  // namespace sparkx
