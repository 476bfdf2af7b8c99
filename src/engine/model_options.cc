#include "engine/model_options.h"

#include "core/error.h"

namespace sparkx {

LoadOptions load_options(const ModelOptions& options) {
  LoadOptions load;
  parse_dtype(options.dtype, load.weights);
  load.weights.quantize = parse_quantization(options.quantize, options.group_size, options.head_quantize);
  load.weights.activations = parse_activation_mode(options.activations);
  if (options.kv_dtype != "auto") load.kv_kind = parse_kv_kind(options.kv_dtype);
  load.context = options.context;
  if (options.sequences < 1) throw_error(ErrorCode::invalid_argument, "sequences must be 1 or more");
  load.sequences = options.sequences;
  if (options.threads) {
    if (*options.threads < 1) throw_error(ErrorCode::invalid_argument, "threads must be 1 or more");
    load.threads = *options.threads;
  }
  load.cpus = options.cpu_affinity;
  load.lock_memory = options.lock_memory;
  load.progress = options.progress;
  return load;
}

}  // namespace sparkx
