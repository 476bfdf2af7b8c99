// Codes that a source has, as MLX holds them: kept one by one, with the coefficients that MLX wants beside them.
#pragma once

#include <cstdint>
#include <optional>

#include "convert/quantize.h"
#include "convert/target.h"
#include "core/quantization.h"

namespace sparkx {

// How MLX holds such codes of a matrix of so many columns; absent where it cannot. One scale a row is repeated for
// groups of 32.
std::optional<MlxMode> mlx_mode_of(const QuantizedMatrix& matrix, std::int64_t columns);

// The parts <path>.weight, <path>.scales and, of affine modes, <path>.biases of a matrix in this mode; scales and
// biases are of `type` there.
std::vector<OutputPart> mlx_parts(const TensorInfo& tensor, const MlxMode& mode, Dtype type);

// A matrix whose codes are kept. `type` is that of scales and biases of affine modes.
TensorPlan kept_codes_plan(const Checkpoint& checkpoint, const TensorInfo& tensor, const MlxMode& mode, Dtype type);

// A matrix that is rounded to `type` and quantized.
TensorPlan quantized_plan(const Checkpoint& checkpoint, const TensorInfo& tensor, const MlxMode& mode, Dtype type);

// The same, by what `calibration` knows about its columns; of affine modes only. The calibration must outlive it.
TensorPlan calibrated_plan(const Checkpoint& checkpoint, const TensorInfo& tensor, const MlxMode& mode, Dtype type,
                           const Calibration& calibration);

}  // namespace sparkx
