// The public Conversion: plans an output in its format, and carries the plan out on all cores, through buffers whose
// size does not depend on the model's.

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "convert/calibration.h"
#include "convert/source.h"
#include "convert/staging.h"
#include "convert/target.h"
#include "core/aligned_buffer.h"
#include "core/cpu_features.h"
#include "core/error.h"
#include "core/float_environment.h"
#include "core/progress.h"
#include "core/thread_pool.h"
#include "engine/builtin_model.h"
#include "formats/checkpoint.h"
#include "sparkx/convert.hpp"

namespace sparkx {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunkElements = std::int64_t{1} << 18;  // of a tensor that a thread converts at a time

Checkpoint open_source(const fs::path& source) {
  if (!source.empty()) return Checkpoint::open(source);
  std::vector<MemoryFile> files;
  for (const BuiltinFile& file : builtin_model_files()) files.push_back({file.name, file.bytes});
  return Checkpoint::open("built-in model", files);
}

std::string choose_format(const std::string& wanted, const fs::path& output) {
  if (wanted == "mlx" || wanted == "hf" || wanted == "gguf") return wanted;
  if (wanted == "auto") return output.extension() == ".gguf" ? "gguf" : "mlx";
  throw_error(ErrorCode::invalid_argument, "\"{}\" is no format: mlx, hf, gguf", wanted);
}

std::unique_ptr<Calibration> open_calibration(const Checkpoint& checkpoint, const ConvertOptions& options,
                                              const std::string& format) {
  if (options.calibrate.empty()) return nullptr;
  if (format == "hf" || (options.quantize == "none" && options.recipe.empty() && options.rules.empty())) {
    throw_error(ErrorCode::invalid_argument, "calibration with {}, but nothing is to be quantized",
                options.calibrate.string());
  }
  return std::make_unique<Calibration>(options.calibrate, checkpoint);
}

Target plan_target(const std::string& format, const Checkpoint& checkpoint, const ConvertOptions& options,
                   Calibration* calibration) {
  if (format == "hf") return plan_hugging_face(checkpoint, options);
  Target target =
      format == "gguf" ? plan_gguf(checkpoint, options, calibration) : plan_mlx(checkpoint, options, calibration);
  if (calibration == nullptr) return target;
  if (!calibration->is_wanted()) {
    throw_error(ErrorCode::invalid_argument, "calibration with {}, but no matrix that is quantized can make use of it",
                options.calibrate.string());
  }
  return target;
}

// Everything that the source is made of: the folder or file itself, and where its weights lie.
std::vector<fs::path> source_files(const fs::path& source, const Checkpoint& checkpoint) {
  std::set<fs::path> files;
  if (!source.empty()) files.insert(source);
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (!source.empty() && tensor.file != nullptr) files.insert(tensor.file->name());
  }
  return {files.begin(), files.end()};
}

std::int64_t rows_at_a_time(const TensorInfo& tensor) {
  return std::clamp<std::int64_t>(kChunkElements / tensor.columns(), 1, tensor.rows());
}

// Makes the rows of all tensors, on all threads, and gives them to the output.
class Runner {
 public:
  // Reading the model once is as much progress as writing it.
  Runner(const Target& target, Calibration* calibration, int threads, ProgressCallback callback,
         std::uint64_t weight_bytes)
      : target_(target),
        calibration_(calibration),
        weight_bytes_(weight_bytes),
        pool_(threads),
        progress_(std::move(callback), weight_bytes * static_cast<std::uint64_t>(passes() + 1)),
        errors_(target.tensors.size()) {
    std::uint64_t most = 0;
    for (const TensorPlan& plan : target.tensors) {
      std::uint64_t row_bytes = 0;
      for (const OutputPart& part : plan.parts) row_bytes += part.row_bytes + kAlignment;
      most = std::max(most, row_bytes * static_cast<std::uint64_t>(rows_at_a_time(*plan.tensor)));
    }
    for (int i = 0; i < pool_.size(); ++i) buffers_.emplace_back(most);
  }

  ~Runner() {
    if (calibration_ != nullptr) calibration_->release();
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Without an output the rows are made all the same: what is wrong with them shows.
  void run(const Staging* output) {
    const ScopedFloatEnvironment environment;
    for (std::size_t i = 0; i < target_.tensors.size(); ++i) {
      const TensorPlan& plan = target_.tensors[i];
      if (plan.calibrated) calibration_->prepare(*plan.tensor, pool_, progress_, weight_bytes_);
      const std::int64_t rows = plan.tensor->rows(), step = rows_at_a_time(*plan.tensor);
      pool_.parallel_for((rows + step - 1) / step, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
        for (std::int64_t piece = begin; piece < end && !failed_ && !progress_.cancelled(); ++piece) {
          convert(plan, piece * step, std::min(rows, (piece + 1) * step), errors_[i], worker, output);
        }
      });
      if (failed_) std::rethrow_exception(error_);
      progress_.check();
    }
  }

  std::span<const double> errors() const { return errors_; }

 private:
  static constexpr std::uint64_t kAlignment = 64;

  std::int64_t passes() const { return calibration_ == nullptr ? 0 : calibration_->passes(); }

  void convert(const TensorPlan& plan, std::int64_t begin, std::int64_t end, double& largest_error, int worker,
               const Staging* output) {
    try {
      std::vector<std::byte*> places;
      std::byte* at = buffers_[static_cast<std::size_t>(worker)].data();
      const auto rows = static_cast<std::uint64_t>(end - begin);
      for (const OutputPart& part : plan.parts) {
        places.push_back(at);
        at += (part.row_bytes * rows + kAlignment - 1) / kAlignment * kAlignment;
      }
      const double error = plan.encode(begin, end, places);
      for (std::size_t p = 0; output != nullptr && p < plan.parts.size(); ++p) {
        const OutputPart& part = plan.parts[p];
        output->write(part.file, part.offset + static_cast<std::uint64_t>(begin) * part.row_bytes,
                      {places[p], part.row_bytes * rows});
      }
      progress_.add(rows * plan.tensor->row_bytes());
      const std::lock_guard lock(mutex_);
      largest_error = std::max(largest_error, error);
    } catch (const Error& error) {
      // Of the values themselves; what cannot be read is named by its file.
      const bool named = error.code() != ErrorCode::corrupt;
      fail(named ? std::current_exception()
                 : std::make_exception_ptr(
                       Error(error.code(), fmt::format("tensor {}: {}", plan.tensor->name, error.what()))));
    } catch (...) {
      fail(std::current_exception());
    }
  }

  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!failed_.exchange(true)) error_ = std::move(error);
  }

  const Target& target_;
  Calibration* calibration_;
  std::uint64_t weight_bytes_;
  ThreadPool pool_;
  Progress progress_;
  std::vector<AlignedBuffer<std::byte>> buffers_;
  std::vector<double> errors_;
  std::mutex mutex_;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
};

}  // namespace

struct Conversion::Impl {
  Impl(const fs::path& source, const fs::path& output, const ConvertOptions& options)
      : checkpoint(open_source(source)),
        threads(options.threads.value_or(default_thread_count())),
        format(choose_format(options.format, output)),
        calibration(open_calibration(checkpoint, options, format)),
        target(plan_target(format, checkpoint, options, calibration.get())) {
    if (threads < 1) throw_error(ErrorCode::invalid_argument, "threads must be 1 or more");
    describe();
    place =
        check_output(output, !target.single_file, options.replace, source_files(source, checkpoint), plan.output_bytes);
  }

  void describe() {
    plan.format = format;
    if (calibration) plan.calibration = calibration->description();
    std::uint64_t bytes = 0;
    double elements = 0;
    for (const TensorPlan& tensor : target.tensors) {
      const std::int64_t count = tensor.tensor->rows() * tensor.tensor->columns();
      plan.tensors.push_back({tensor.tensor->name, tensor.source, tensor.target, tensor.reason, count, tensor.bytes()});
      bytes += tensor.bytes();
      elements += static_cast<double>(count);
    }
    plan.bits_per_weight = static_cast<double>(bytes) * 8 / elements;
    for (const TensorFile& file : target.files) {
      plan.files.push_back(file.name);
      plan.output_bytes += file.bytes;
    }
    std::vector<TextFile> texts = reports(std::vector<double>(target.tensors.size()));  // names and about the size
    texts.insert(texts.begin(), target.texts.begin(), target.texts.end());
    for (const TextFile& file : texts) {
      plan.files.push_back(file.name);
      plan.output_bytes += file.text.size();
    }
    plan.notes = checkpoint.warnings();
    plan.notes.insert(plan.notes.end(), target.notes.begin(), target.notes.end());
  }

  std::vector<TextFile> reports(std::span<const double> errors) const {
    return target.report ? target.report(target, errors) : std::vector<TextFile>();
  }

  Checkpoint checkpoint;
  int threads;
  std::string format;
  std::unique_ptr<Calibration> calibration;  // null for none
  Target target;
  ConversionPlan plan;
  OutputPlace place;
};

Conversion::Conversion(const fs::path& source, const fs::path& output, const ConvertOptions& options)
    : impl_(std::make_unique<Impl>(source, output, options)) {}
Conversion::~Conversion() = default;
Conversion::Conversion(Conversion&&) noexcept = default;
Conversion& Conversion::operator=(Conversion&&) noexcept = default;

const ConversionPlan& Conversion::plan() const {
  return impl_->plan;
}

std::string Conversion::check(const std::function<bool(std::uint64_t done, std::uint64_t total)>& progress) {
  Runner runner(impl_->target, impl_->calibration.get(), impl_->threads, progress, impl_->checkpoint.weight_bytes());
  runner.run(nullptr);
  const std::vector<TextFile> reports = impl_->reports(runner.errors());
  return reports.empty() ? std::string() : reports.back().text;
}

std::string Conversion::run(const std::function<bool(std::uint64_t done, std::uint64_t total)>& progress) {
  const Target& target = impl_->target;
  Staging staging(impl_->place);
  for (const TensorFile& file : target.files) {
    const std::size_t number = staging.create(file.name, file.bytes);
    staging.write(number, 0, std::as_bytes(std::span(file.head)));
  }
  Runner runner(target, impl_->calibration.get(), impl_->threads, progress, impl_->checkpoint.weight_bytes());
  runner.run(&staging);
  const std::vector<TextFile> reports = impl_->reports(runner.errors());
  for (const TextFile& file : target.texts) staging.add(file.name, file.text);
  for (const TextFile& file : reports) staging.add(file.name, file.text);
  staging.commit();
  return reports.empty() ? std::string() : reports.back().text;
}

}  // namespace sparkx
