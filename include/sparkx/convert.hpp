// Converting checkpoints (docs/convert.md): any format that sparkx reads into MLX's, Hugging Face's or GGUF's.
//
//   sparkx::Conversion conversion("Spark-X2.5-1.7B", "Spark-X2.5-1.7B-4bit", {.quantize = "4bit"});
//   for (const auto& tensor : conversion.plan().tensors) std::cout << tensor.name << ": " << tensor.target << '\n';
//   conversion.run();
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sparkx {

// Modules whose path a pattern matches get a quantization of their own.
struct QuantizationRule {
  std::string pattern;  // a regular expression as Python has it, found anywhere in "model.layers.0.mlp.down_proj"
  std::string mode;     // "4" or "4bit" and so on, another mode of ConvertOptions::quantize, or "none"
};

struct ConvertOptions {
  std::string format = "auto";  // "mlx", "hf", "gguf"; "auto": gguf for an output that is called so, else mlx

  // "none", or as MLX quantizes: "2bit", "3bit", "4bit", "5bit", "6bit", "8bit", "mxfp4", "mxfp8", "nvfp4"; for GGUF
  // its own names: "Q8_0", "Q4_K_M", … What is stored as codes already keeps them where the output can hold them; a
  // name of GGUF's decides for all, and codes stay only where its type holds them.
  std::string quantize = "none";
  std::optional<int> group_size = {};  // columns that share a scale: 32, 64 or 128 of "4bit" and its like; absent: 64
  std::string recipe = {};             // mlx-lm's mixtures: "mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6"
  std::vector<QuantizationRule> rules = {};  // the last one that matches decides
  // A text in UTF-8, over which the model is run to see what its matrices read, or an importance matrix of llama.cpp's
  // llama-imatrix: quantizing then costs as little as it can where it matters. Empty: plain rounding.
  std::filesystem::path calibrate = {};
  // Of what is not quantized: "float32", "bfloat16", "float16". "auto": what config.json says as torch_dtype, as mlx-lm
  // has it, else the file's own.
  std::string dtype = "auto";
  bool keep_activation_codes = true;  // false: W8A8 matrices become 8-bit weights whose activations are floats (W8A16)

  std::uint64_t shard_bytes = std::uint64_t{5} << 30;  // most bytes of tensors in a file, unless one tensor has more
  bool replace = false;                                // an existing output
  std::optional<int> threads = {};                     // absent: one for each physical core
};

// What becomes of one tensor.
struct ConvertedTensor {
  std::string name;           // "model.layers.0.mlp.down_proj.weight"
  std::string source;         // "bfloat16", "4-bit, groups of 64"
  std::string target;         // in the same terms
  std::string reason;         // why, where that is not what was asked for; else empty
  std::int64_t elements = 0;  // of the tensor as the model has it
  std::uint64_t bytes = 0;    // in the output
};

struct ConversionPlan {
  std::string format;                    // "mlx", "hf", "gguf"
  std::vector<ConvertedTensor> tensors;  // in the order of the output
  std::vector<std::string> files;        // names, those with tensors first
  std::vector<std::string> notes;        // what a user should know, ready to print
  std::string calibration;               // what it is calibrated by, and how; empty without
  std::uint64_t output_bytes = 0;        // of all files
  double bits_per_weight = 0;            // bits of all tensors in the output by their elements
};

// Everything that can be wrong with a conversion is found when it is planned; nothing is written before run().
class Conversion {
 public:
  // `source`: a folder or GGUF file as LanguageModel::load takes it; empty: the built-in model. Throws what
  // LanguageModel::load throws for the source, Error{invalid_argument} for options that make no sense or an output that
  // exists, is the source or lies inside it, Error{unsupported} for what the format cannot hold, Error{io} when there
  // is too little room on the disk.
  Conversion(const std::filesystem::path& source, const std::filesystem::path& output, const ConvertOptions& options);
  ~Conversion();
  Conversion(Conversion&&) noexcept;
  Conversion& operator=(Conversion&&) noexcept;

  const ConversionPlan& plan() const;

  // Writes the output beside its place and moves it there when all of it is on the disk; whatever happens before
  // leaves what was there. Returns a report for a person where codes came from another format, else nothing. `progress`
  // is told the bytes of the source that are done; false cancels. Throws Error{io}, Error{corrupt} for values that
  // cannot be converted, Error{cancelled}.
  std::string run(const std::function<bool(std::uint64_t done, std::uint64_t total)>& progress = {});

  // The same without writing anything: what is wrong with the source's values shows.
  std::string check(const std::function<bool(std::uint64_t done, std::uint64_t total)>& progress = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sparkx
