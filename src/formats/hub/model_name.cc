#include "formats/hub/model_name.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"
#include "core/printable.h"
#include "core/unicode.h"

namespace sparkx {
namespace {

constexpr std::size_t kMaxName = 96;  // as Hugging Face has it, for each half of a repository's name
constexpr std::size_t kMaxPart = 255;
constexpr std::size_t kMaxPath = 1024;
constexpr std::size_t kMaxListed = 20;  // files in a message
constexpr std::string_view kGguf = ".gguf";

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool consists_of(std::string_view text, std::string_view others) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [&](char c) { return is_alphanumeric(c) || others.find(c) != others.npos; });
}

std::string lowercase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

bool is_name_half(std::string_view text) {
  const auto at_an_end = [](char c) { return c == '.' || c == '-'; };
  return text.size() <= kMaxName && consists_of(text, "._-") && !at_an_end(text.front()) && !at_an_end(text.back()) &&
         text.find("--") == text.npos && text.find("..") == text.npos;
}

// Old repositories have no owner.
bool is_repo(std::string_view text, bool owner_needed) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return !owner_needed && is_name_half(text);
  return is_name_half(text.substr(0, slash)) && is_name_half(text.substr(slash + 1));
}

bool is_revision(std::string_view text) {
  return consists_of(text, "._-/+") && is_safe_path(text);
}

// "CON", "nul.txt", "com1": devices under Windows, and whoever shares a cache with it.
bool is_device(std::string_view part) {
  const std::string stem = lowercase(part.substr(0, part.find('.')));
  if (stem == "con" || stem == "prn" || stem == "aux" || stem == "nul") return true;
  return stem.size() == 4 && (stem.starts_with("com") || stem.starts_with("lpt")) && stem[3] >= '0' && stem[3] <= '9';
}

std::optional<ModelName> hub_name(ModelSource source, std::string_view text, bool owner_needed = true) {
  ModelName name{source, "", "", ""};
  if (const std::size_t colon = text.rfind(':'); colon != text.npos) {
    name.variant = text.substr(colon + 1);
    const bool is_path = name.variant.find('/') != std::string::npos;
    if (!is_safe_path(name.variant) || (is_path && !name.variant.ends_with(kGguf))) return std::nullopt;
    text = text.substr(0, colon);
  }
  if (const std::size_t at = text.find('@'); at != text.npos) {
    name.revision = text.substr(at + 1);
    if (!is_revision(name.revision)) return std::nullopt;
    text = text.substr(0, at);
  }
  if (!is_repo(text, owner_needed)) return std::nullopt;
  name.repo = text;
  return name;
}

// As Ollama reads it: [HOST/][NAMESPACE/]NAME[:TAG].
std::optional<ModelName> ollama_name(std::string_view text) {
  ModelName name{ModelSource::ollama, "", "latest", ""};
  if (const std::size_t colon = text.rfind(':'); colon != text.npos && text.find('/', colon) == text.npos) {
    name.revision = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  if (!consists_of(name.revision, "._-") || !is_safe_path(name.revision)) return std::nullopt;
  std::string path(text);
  if (const std::size_t port = path.find(':'); port < path.find('/')) path[port] = '_';
  if (!consists_of(path, "._-/") || !is_safe_path(path)) return std::nullopt;
  name.repo = text;
  return name;
}

// Whether a shell's pattern fits all of a text.
bool fits(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = pattern.npos, retry = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p, ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++retry;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == pattern.npos;
}

bool fits_any(std::span<const std::string> patterns, std::string_view path) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return fits(pattern, path) || fits(pattern, last_part(path)); });
}

bool is_at_top(std::string_view path) {
  return path.find('/') == path.npos;
}
bool is_safetensors(std::string_view path) {
  return path.ends_with(".safetensors");
}
bool is_gguf_model(std::string_view path) {
  // Beside models there are image encoders and statistics for quantizing in the same format.
  const std::string name = lowercase(last_part(path));
  return name.ends_with(".gguf") && !name.starts_with("mmproj") && !name.starts_with("imatrix");
}

// What belongs to safetensors files: configuration, tokenizer, templates.
bool is_companion(std::string_view path) {
  const std::string_view name = last_part(path);
  if (name == "config.json" || name == "generation_config.json" || name.ends_with(".safetensors.index.json"))
    return true;
  if (name.starts_with("tokenizer") && name.ends_with(".json")) return true;
  return name.starts_with("chat_template") && (name.ends_with(".jinja") || name.ends_with(".json"));
}

// "model.safetensors", "model-00001-of-00003.safetensors": other names are the same weights for other programs.
bool is_standard_weights(std::string_view path) {
  if (path == "model.safetensors") return true;
  return fits("model-\?\?\?\?\?-of-\?\?\?\?\?.safetensors", path);
}

// "NAME-00002-of-00003", the end of the name of a split file; of a whole one all of it is the stem.
struct Split {
  std::string_view stem;
  std::size_t part = 0;
  std::size_t parts = 0;
};

Split split_of(std::string_view name) {
  constexpr std::string_view kPattern = "-00000-of-00000";
  if (name.size() <= kPattern.size()) return {name};
  const std::string_view end = name.substr(name.size() - kPattern.size());
  std::size_t numbers[2] = {};
  for (std::size_t i = 0; i < end.size(); ++i) {
    if (kPattern[i] != '0') {
      if (end[i] != kPattern[i]) return {name};
      continue;
    }
    if (end[i] < '0' || end[i] > '9') return {name};
    std::size_t& number = numbers[i > 5];
    number = number * 10 + static_cast<std::size_t>(end[i] - '0');
  }
  if (numbers[0] < 1 || numbers[0] > numbers[1]) return {name};
  return {name.substr(0, name.size() - kPattern.size()), numbers[0], numbers[1]};
}

// Names that can be printed, as the end of a message.
std::string listed(std::span<const std::string> names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxListed); ++i) text += "\n  " + names[i];
  if (names.size() > kMaxListed) text += fmt::format("\n  … and {} more", names.size() - kMaxListed);
  return text;
}

std::vector<std::string> first_files(std::span<const GgufFiles> models) {
  std::vector<std::string> names;
  for (const GgufFiles& model : models) names.push_back(printable(model.parts.front().path));
  return names;
}

// Whether a name says a quantization: between dots, dashes, or its ends.
bool says(std::string_view stem, const std::string& variant) {
  const std::string name = lowercase(stem), wanted = lowercase(variant);
  const auto is_boundary = [&](std::size_t at) { return at >= name.size() || name[at] == '.' || name[at] == '-'; };
  for (std::size_t at = name.find(wanted); at != name.npos; at = name.find(wanted, at + 1)) {
    if ((at == 0 || is_boundary(at - 1)) && is_boundary(at + wanted.size())) return true;
  }
  return false;
}

std::vector<GgufFiles> matching(std::span<const GgufFiles> models, const std::string& variant) {
  const std::string wanted = lowercase(variant);
  std::vector<GgufFiles> same_name, same_quantization, at_end;
  for (const GgufFiles& model : models) {
    const std::string path = lowercase(model.parts.front().path);
    const std::string_view file = is_at_top(wanted) ? last_part(path) : path;
    const std::string_view stem = last_part(model.stem);
    if (file == wanted || file == wanted + ".gguf") same_name.push_back(model);
    if (says(stem, variant)) {
      same_quantization.push_back(model);
      if (lowercase(stem).ends_with(wanted)) at_end.push_back(model);
    }
  }
  if (!same_name.empty()) return same_name;
  return at_end.size() == 1 ? at_end : same_quantization;
}

Selection whole(const GgufFiles& model, const std::string& what) {
  if (!model.complete()) {
    throw_error(ErrorCode::not_found, "{}: of the {} parts of {} only {} are there", what, model.parts_wanted,
                printable(model.stem), model.parts.size());
  }
  return {model.parts, model.parts.front().path};
}

}  // namespace

std::optional<ModelName> parse_model_name(std::string_view text) {
  if (text.size() > kMaxPath) return std::nullopt;
  const auto after = [&](std::string_view prefix) { return text.substr(prefix.size()); };
  if (text.starts_with("hf:")) return hub_name(ModelSource::hugging_face, after("hf:"), false);
  if (text.starts_with("modelscope:")) return hub_name(ModelSource::modelscope, after("modelscope:"));
  if (text.starts_with("ollama:")) return ollama_name(after("ollama:"));
  if (text.starts_with("lmstudio:")) {
    if (!is_safe_path(after("lmstudio:"))) return std::nullopt;
    return ModelName{ModelSource::lm_studio, std::string(after("lmstudio:")), "", ""};
  }
  return hub_name(ModelSource::hugging_face, text);
}

std::string to_string(const ModelName& name) {
  switch (name.source) {
    case ModelSource::ollama:
      return fmt::format("ollama:{}:{}", name.repo, name.revision);
    case ModelSource::lm_studio:
      return "lmstudio:" + name.repo;
    default:
      return fmt::format("{}{}{}{}{}{}",
                         name.source == ModelSource::modelscope     ? "modelscope:"
                         : name.repo.find('/') == std::string::npos ? "hf:"
                                                                    : "",
                         name.repo, name.revision.empty() ? "" : "@", name.revision, name.variant.empty() ? "" : ":",
                         name.variant);
  }
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxPath || !is_valid_utf8(path)) return false;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(path[i]);
    if (c < 0x20 || c == 0x7F || c == '\\' || c == ':') return false;
    if (c == 0xC2 && static_cast<unsigned char>(path[i + 1]) < 0xA0) return false;  // U+0080 … U+009F
  }
  while (true) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    // A name that begins with a dot is ".", "..", or hidden; one that ends in a dot or blank loses it under Windows.
    if (part.empty() || part.size() > kMaxPart || part.front() == '.' || part.back() == '.' || part.back() == ' ' ||
        is_device(part)) {
      return false;
    }
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::vector<GgufFiles> gguf_models(std::span<const HubFile> files) {
  // By stem and number of parts, 0 for a file that is whole.
  std::map<std::pair<std::string, std::size_t>, std::map<std::size_t, HubFile>> models;
  for (const HubFile& file : files) {
    if (!is_gguf_model(file.path)) continue;
    const std::string_view name = std::string_view(file.path).substr(0, file.path.size() - kGguf.size());
    const Split split = split_of(name);
    models[{std::string(split.stem), split.parts}].insert_or_assign(split.part, file);
  }
  std::vector<GgufFiles> result;
  for (auto& [key, parts] : models) {
    GgufFiles& model = result.emplace_back(GgufFiles{key.first, {}, std::max<std::size_t>(key.second, 1)});
    for (auto& [part, file] : parts) model.parts.push_back(std::move(file));
  }
  return result;
}

std::string variant_of(const GgufFiles& model, std::span<const GgufFiles> all) {
  const std::string& path = model.parts.front().path;
  const auto finds_it = [&](std::string_view variant) {
    const std::vector<GgufFiles> found = matching(all, std::string(variant));
    return found.size() == 1 && found[0].parts.front().path == path;
  };
  // The quantization is what stands behind the last dot or dash, or the last but one ("UD-Q4_K_XL").
  const std::string_view stem = last_part(model.stem);
  for (std::size_t at = stem.find_last_of(".-"); at != stem.npos && at > 0; at = stem.find_last_of(".-", at - 1)) {
    const std::string variant(stem.substr(at + 1));
    if (!consists_of(variant, "._-")) break;
    if (finds_it(variant)) return variant;
  }
  // Folders may have files of one name.
  return std::string(finds_it(last_part(path)) ? last_part(path) : path);
}

Selection select_files(std::span<const HubFile> files, const std::string& variant,
                       std::span<const std::string> patterns, const std::string& what) {
  const std::vector<GgufFiles> models = gguf_models(files);
  if (!patterns.empty()) {
    std::vector<std::string> takeable;
    Selection selection;
    for (const HubFile& file : files) {
      if (!is_safetensors(file.path) && !is_companion(file.path) && !is_gguf_model(file.path)) continue;
      takeable.push_back(printable(file.path));
      if (fits_any(patterns, file.path)) selection.files.push_back(file);
    }
    if (selection.files.empty()) {
      throw_error(ErrorCode::not_found, "{}: no file of a kind that a model needs is called so; there are:{}", what,
                  listed(takeable));
    }
    const std::vector<GgufFiles> chosen = gguf_models(selection.files);
    if (selection.files.size() == 1) {
      selection.main = selection.files.front().path;
    } else if (chosen.size() == 1 && chosen.front().complete()) {
      selection.main = chosen.front().parts.front().path;
    }
    return selection;
  }
  if (!variant.empty()) {
    if (models.empty()) {
      throw_error(ErrorCode::not_found, "{}: there are no GGUF files, so none for \"{}\"", what, printable(variant));
    }
    const std::vector<GgufFiles> found = matching(models, variant);
    if (found.size() == 1) return whole(found.front(), what);
    if (found.empty()) {
      throw_error(ErrorCode::not_found, "{}: no GGUF file is called {}; there are:{}", what, printable(variant),
                  listed(first_files(models)));
    }
    throw_error(ErrorCode::invalid_argument, "{}: {} is in the names of several files:{}", what, printable(variant),
                listed(first_files(found)));
  }

  Selection selection;
  std::vector<HubFile> other_weights;
  bool config = false, weights = false;
  for (const HubFile& file : files) {
    if (!is_at_top(file.path)) continue;
    config |= file.path == "config.json";
    if (is_standard_weights(file.path)) {
      weights = true;
      selection.files.push_back(file);
    } else if (is_safetensors(file.path)) {
      other_weights.push_back(file);
    } else if (is_companion(file.path)) {
      selection.files.push_back(file);
    }
  }
  if (config && (weights || !other_weights.empty())) {
    if (!weights) selection.files.insert(selection.files.end(), other_weights.begin(), other_weights.end());
    return selection;
  }
  if (models.size() == 1) return whole(models.front(), what);
  if (models.empty()) {
    throw_error(ErrorCode::not_found,
                "{}: there is no model in a format that sparkx reads: neither config.json with safetensors nor GGUF",
                what);
  }
  std::vector<std::string> names;
  for (const GgufFiles& model : models) {
    names.push_back(
        fmt::format(":{}  ({})", printable(variant_of(model, models)), printable(model.parts.front().path)));
  }
  throw_error(ErrorCode::invalid_argument, "{}: there are several GGUF files; choose one by adding one of:{}", what,
              listed(names));
}

}  // namespace sparkx
