// One strict view of a checkpoint (docs/model.md, Checkpoint tensors): a Hugging Face folder with config.json and
// either model.safetensors or shards with model.safetensors.index.json, a GGUF file or the first of a split one, or the
// same files in memory.
//
// Opening reads headers only. Afterwards the set of tensors is complete and every shape is right: each tensor of the
// model is there once, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/file.h"
#include "core/quantization.h"
#include "formats/gguf.h"
#include "formats/model_config.h"
#include "formats/stored_tensors.h"

namespace sparkx {

// A tensor of the checkpoint. `name` is the name of docs/model.md ("model.embedding.weight"), whatever the file calls
// it.
struct TensorInfo {
  std::string name;
  Dtype dtype;                             // float32, float16 or bfloat16
  std::vector<std::int64_t> shape;         // one or two dimensions
  std::shared_ptr<const ByteSource> file;  // null for a quantized matrix and in a synthetic checkpoint
  std::uint64_t offset;                    // of its first byte in that file
  std::string stored_type = {};            // of its elements or codes in the file's terms: "bfloat16", "Q4_K", "uint32"
  std::uint64_t stored_bytes = 0;          // in the files, with scales and all

  std::int64_t rows() const { return shape[0]; }
  std::int64_t columns() const { return shape.size() == 2 ? shape[1] : 1; }  // of a vector each row is one element
  std::uint64_t row_bytes() const { return static_cast<std::uint64_t>(columns()) * dtype_size(dtype); }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(rows()) * row_bytes(); }
};

// What the files of a checkpoint have, as far as it was read: also when it is refused in the end.
struct CheckpointFacts {
  struct File {
    std::string name;
    std::uint64_t bytes;
  };
  std::string format;                 // "safetensors", "MLX", "compressed-tensors", "GGUF"
  std::vector<File> files;            // that hold tensors
  std::vector<StoredTensor> tensors;  // of all of them
};

class Checkpoint {
 public:
  // A folder or a GGUF file. Throws Error{not_found} for a missing folder, file or tensor, Error{corrupt} for files
  // that contradict themselves, each other or the config, Error{unsupported} for what sparkx cannot run (see
  // read_model_config), Error{io}. What is seen on the way goes to `facts`.
  static Checkpoint open(const std::filesystem::path& path, CheckpointFacts* facts = nullptr);

  // Files in memory, which must outlive the checkpoint; `name` stands before file names in messages. Without a
  // config.json the first one whose name ends in .gguf is the model.
  static Checkpoint open(std::string_view name, std::span<const MemoryFile> files, CheckpointFacts* facts = nullptr);

  // The tensors of the model that `config`, the text of a config.json, describes, in bfloat16, with made-up values of
  // ordinary size: for measurements. Nothing is stored; read() computes the values of a place, always the same ones.
  // Throws what read_model_config throws.
  static Checkpoint synthetic(std::string_view name, std::string_view config);

  const ModelConfig& config() const { return config_; }
  const GenerationConfig& generation_config() const { return generation_config_; }  // empty when there is no such file

  // Every tensor of the model, in the order of docs/model.md: embedding, layers from 0 on, norm, lm_head.
  std::span<const TensorInfo> tensors() const { return tensors_; }

  // Throws Error{not_found}: only for a name that the model does not have (lm_head.weight of a tied one, a bias without
  // attention_bias).
  const TensorInfo& tensor(std::string_view name) const;
  const TensorInfo* find_tensor(std::string_view name) const;  // null instead

  // Reads the stored little-endian elements of rows [row_begin, row_end); `out` has exactly their size. Safe from any
  // number of threads. Throws Error{io} when the file has become shorter or cannot be read.
  void read(const TensorInfo& tensor, std::int64_t row_begin, std::int64_t row_end, std::span<std::byte> out) const;

  // The matrix of this name is stored as codes: the elements that its TensorInfo describes are not read. Throws what
  // check_quantization throws.
  void set_quantized(std::string_view name, QuantizedMatrix matrix);
  const QuantizedMatrix* find_quantized(std::string_view name) const;  // null when it is dense

  // The text files beside the weights, absent when there is none. Throws Error{io}, and Error{corrupt} above 256 MiB.
  // "tokenizer.json", "tokenizer_config.json", "chat_template.jinja". None belongs to a GGUF file.
  std::optional<std::string> text_file(std::string_view name) const;
  std::string display_name(std::string_view name) const;  // how messages call a file: "DIR/tokenizer.json"

  // What a GGUF file says beside its tensors; null for other checkpoints.
  const GgufMetadata* gguf_metadata() const { return gguf_metadata_ ? &*gguf_metadata_ : nullptr; }

  std::uint64_t weight_bytes() const;  // of all tensors, as stored

  // Things a user may want to know, ready to print: unknown config keys, ignored tensors.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Checkpoint() = default;
  void load_folder(CheckpointFacts& facts);
  void load_gguf(const std::string& first_file, CheckpointFacts& facts);
  void warn_of_unknown_keys(const std::string& file);
  // Reads a matrix that is stored as codes, taking its parts; absent when it is stored dense. `path` is the name of its
  // module, `class_name` what compressed-tensors calls such modules.
  using QuantizedReader =
      std::function<std::optional<QuantizedMatrix>(const std::string& path, std::string_view class_name,
                                                   std::int64_t rows, std::int64_t columns, StoredTensors& tensors)>;
  // By what config.json says of quantization, and whose format that is; empty when it says nothing.
  static QuantizedReader quantization_of(const json::Value& config, const std::string& file, std::string& format);
  // Matches what the files have with what the model needs, both ways; `described_by` says where that is written.
  void resolve(StoredTensors stored, const QuantizedReader& quantized, std::string_view described_by);
  void set_tensors(std::vector<TensorInfo> tensors);  // and finds them by name
  std::optional<ByteSource> find_file(std::string_view name) const;

  std::string name_;                             // what stands before file names in messages: the folder
  std::optional<std::filesystem::path> folder_;  // of a checkpoint in files
  std::vector<MemoryFile> memory_files_;         // of one in memory
  std::optional<GgufMetadata> gguf_metadata_;
  ModelConfig config_;
  GenerationConfig generation_config_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::uint32_t> by_name_;  // indices into tensors_, ordered by name
  std::map<std::string, QuantizedMatrix, std::less<>> quantized_;
  std::vector<std::string> warnings_;
};

}  // namespace sparkx
