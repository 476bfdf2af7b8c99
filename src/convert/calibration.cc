#include "convert/calibration.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/unicode.h"
#include "engine/text_tokenizer.h"
#include "formats/gguf_model.h"

namespace sparkx {
namespace {

constexpr std::int64_t kWindow = 2048;  // tokens of the text that see each other
constexpr std::uint64_t kMostTextBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kBatchBytes = std::uint64_t{1}
                                      << 30;  // of the statistics of a batch, unless one input has more
constexpr std::size_t kLeastTokens = 16;

constexpr std::string_view kLayers = "model.layers.";
constexpr std::pair<std::string_view, LinearInput> kModules[] = {
    {"self_attn.q_k_v_proj.weight", LinearInput::attention},
    {"self_attn.g_proj.weight", LinearInput::attention},
    {"self_attn.out_proj.weight", LinearInput::heads},
    {"mlp.gate_proj.weight", LinearInput::mlp},
    {"mlp.up_proj.weight", LinearInput::mlp},
    {"mlp.down_proj.weight", LinearInput::hidden}};

ColumnWeights column_weights(std::span<const double> squares) {
  double mean = 0;
  for (const double square : squares) mean += square;
  mean /= static_cast<double>(squares.size());
  if (!(mean > 0)) mean = 1;
  ColumnWeights weights;
  for (const double square : squares) weights.importance.push_back(static_cast<float>(square / mean + kDamping));
  return weights;
}

}  // namespace

std::vector<std::uint8_t> ColumnWeights::codes(std::span<const float> values, std::span<const CodeGrid> grids,
                                               std::int64_t group, int highest) const {
  std::vector<std::uint8_t> codes(values.size());
  if (feedback) {
    const auto rows = static_cast<std::int64_t>(values.size() / importance.size());
    feedback->choose_codes(values.data(), rows, grids.data(), group, highest, codes.data());
    return codes;
  }
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::uint8_t>(nearest_code(values[i], grids[i / static_cast<std::size_t>(group)], highest));
  }
  return codes;
}

std::optional<LinearInputPlace> input_of(std::string_view tensor) {
  if (tensor == "lm_head.weight") return LinearInputPlace{LinearInput::head, 0};
  if (!tensor.starts_with(kLayers)) return std::nullopt;
  std::int64_t layer = 0;
  const auto [end, error] = std::from_chars(tensor.data() + kLayers.size(), tensor.data() + tensor.size(), layer);
  tensor.remove_prefix(static_cast<std::size_t>(end - tensor.data()) + 1);
  for (const auto& [module, input] : kModules) {
    if (tensor == module) return LinearInputPlace{input, layer};
  }
  return std::nullopt;
}

Calibration::Calibration(const std::filesystem::path& path, const Checkpoint& checkpoint)
    : checkpoint_(checkpoint), file_(path.string()) {
  const ByteSource file = ByteSource::open(path);
  if (is_binary(file)) {
    matrix_ = read_importance_matrix(file);
    return;
  }
  const std::string text = file.read_all(kMostTextBytes);
  if (!is_valid_utf8(text)) {
    throw_error(ErrorCode::corrupt, "{}: is neither a text in UTF-8 nor an importance matrix of llama.cpp", file_);
  }
  const std::optional<TextTokenizer::Impl> tokenizer = TextTokenizer::Impl::read(checkpoint);
  if (!tokenizer) throw_error(ErrorCode::not_found, "the model has no tokenizer to read the text {} with", file_);
  text_.tokens = tokenizer->tokenizer.encode(text);
  text_.window = std::min(kWindow, checkpoint.config().max_position_embeddings);
  if (text_.tokens.size() < kLeastTokens) {
    throw_error(ErrorCode::invalid_argument,
                "{}: has {} tokens, from which nothing can be learned; some ten thousand are good", file_,
                text_.tokens.size());
  }
}

const std::vector<float>* Calibration::importance_of(const TensorInfo& tensor) const {
  const std::optional<LinearInputPlace> place = input_of(tensor.name);
  if (!place) return nullptr;
  // By its own name, or that of another matrix with the same input.
  std::vector<std::string> names{*to_gguf_tensor_name(tensor.name)};
  for (const auto& [module, input] : kModules) {
    if (input != place->input) continue;
    names.push_back(*to_gguf_tensor_name(fmt::format("{}{}.{}", kLayers, place->layer, module)));
  }
  for (const std::string& name : names) {
    const auto found = matrix_->find(name);
    if (found == matrix_->end()) continue;
    if (static_cast<std::int64_t>(found->second.size()) != tensor.columns()) {
      throw_error(ErrorCode::corrupt, "{}: {} has {} values, but {} has {} columns; it is of another model", file_,
                  name, found->second.size(), tensor.name, tensor.columns());
    }
    return &found->second;
  }
  return nullptr;
}

bool Calibration::want(const TensorInfo& tensor) {
  const std::optional<LinearInputPlace> place = input_of(tensor.name);
  if (!place || (matrix_ && importance_of(tensor) == nullptr)) return false;
  const bool known =
      std::any_of(wanted_.begin(), wanted_.end(), [&](const WantedInput& w) { return w.place == *place; });
  if (!known) wanted_.push_back({*place, tensor.columns(), !matrix_});
  return true;
}

std::size_t Calibration::batch_size(std::size_t first) const {
  std::uint64_t bytes = wanted_[first].bytes();
  std::size_t count = 1;
  while (first + count < wanted_.size() && bytes + wanted_[first + count].bytes() <= kBatchBytes) {
    bytes += wanted_[first + count++].bytes();
  }
  return count;
}

std::int64_t Calibration::passes() const {
  std::int64_t passes = 0;
  for (std::size_t i = 0; !matrix_ && i < wanted_.size(); i += batch_size(i)) ++passes;
  return passes;
}

std::string Calibration::description() const {
  if (matrix_) return fmt::format("{}, an importance matrix of {} entries", file_, matrix_->size());
  return fmt::format("{}, {} tokens in windows of {}, read {} time{}", file_, text_.tokens.size(), text_.window,
                     passes(), passes() == 1 ? "" : "s");
}

void Calibration::prepare(const TensorInfo& tensor, ThreadPool& threads, Progress& progress, std::uint64_t pass_units) {
  const LinearInputPlace place = *input_of(tensor.name);
  if (matrix_) {
    const std::vector<float>& means = *importance_of(tensor);
    weights_ = column_weights(std::vector<double>(means.begin(), means.end()));
    return;
  }
  if (prepared_ == place) return;
  prepared_.reset();
  weights_ = {};
  if (!batch_.contains(place)) {
    batch_.clear();
    const auto first = static_cast<std::size_t>(
        std::find_if(wanted_.begin(), wanted_.end(), [&](const WantedInput& w) { return w.place == place; }) -
        wanted_.begin());
    batch_ = collect_statistics(checkpoint_, text_, std::span(wanted_).subspan(first, batch_size(first)), threads,
                                progress, pass_units);
  }
  const InputStatistics& statistics = batch_.at(place);
  weights_ = column_weights(statistics.squares);
  weights_.feedback = std::make_unique<ErrorFeedback>(*statistics.products, threads, [&progress] {
    progress.add(0);
    progress.check();
  });
  prepared_ = place;
}

void Calibration::release() {
  prepared_.reset();
  weights_ = {};
  batch_.clear();
}

}  // namespace sparkx
