// Hugging Face's format: plain numbers in safetensors, as transformers and vLLM read them. What is quantized is
// decoded.

#include <optional>
#include <string>
#include <utility>

#include "convert/folder.h"
#include "convert/source.h"
#include "convert/target.h"
#include "core/error.h"

namespace sparkx {
namespace {

constexpr int kIndent = 2;  // of transformers' JSON files

// Both of its names, where the source has them; new ones say what the weights are.
void describe_dtype(json::Value& config, Dtype dtype) {
  const bool named = config.find("dtype") != nullptr;
  if (named) set_member(config, "dtype", dtype_name(dtype));
  if (!named || config.find("torch_dtype") != nullptr) set_member(config, "torch_dtype", dtype_name(dtype));
}

}  // namespace

Target plan_hugging_face(const Checkpoint& checkpoint, const ConvertOptions& options) {
  if (options.quantize != "none" || !options.recipe.empty() || !options.rules.empty() || options.group_size) {
    throw_error(ErrorCode::invalid_argument,
                "Hugging Face's format is for plain numbers here; quantize with --format mlx or gguf");
  }
  json::Value config = source_config(checkpoint);
  Target target;
  // Of weights that are decoded config.json may say the type; what are numbers already stays as it is.
  const bool asked_for = options.dtype != "auto";
  const std::optional<Dtype> dtype = parse_output_dtype(options.dtype, config);
  bool decoded = false;
  for (const TensorInfo* tensor : in_parameter_order(checkpoint)) {
    const QuantizedMatrix* matrix = checkpoint.find_quantized(tensor->name);
    const Dtype type = asked_for || matrix != nullptr ? dtype.value_or(tensor->dtype) : tensor->dtype;
    target.tensors.push_back(dense_plan(checkpoint, *tensor, type));
    if (matrix == nullptr) continue;
    decoded = true;
    target.tensors.back().reason = "decoded";
    if (matrix->spec.scheme == CodeScheme::w8a8) {
      target.tensors.back().reason = "decoded; activations become floats";
    }
  }
  if (decoded) {
    remove_member(config, "quantization");
    remove_member(config, "quantization_config");
    target.notes.push_back("quantized weights are decoded: the output is larger, and no more exact than the source");
  }
  if (decoded || asked_for) describe_dtype(config, target.tensors.front().parts.front().dtype.value());
  set_member(config, "tie_word_embeddings", checkpoint.config().tie_word_embeddings);
  place_in_shards(target, options.shard_bytes, "pt");
  target.texts.push_back(config_file(config, kIndent));
  if (target.files.size() > 1) target.texts.push_back(shard_index(target, kIndent));
  add_tokenizer_files(checkpoint, target);
  return target;
}

}  // namespace sparkx
