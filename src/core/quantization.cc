#include "core/quantization.h"

#include <cmath>

#include "core/error.h"
#include "core/float_codes.h"

namespace sparkx {
namespace {

bool is_float(Dtype dtype) {
  return dtype == Dtype::float32 || dtype == Dtype::float16 || dtype == Dtype::bfloat16;
}

bool is_small_float(Dtype dtype) {
  return dtype == Dtype::float8_e4m3 || dtype == Dtype::float8_e8m0;
}

// What each code stands for.
float value_of(CodeValues values, std::uint8_t code) {
  switch (values) {
    case CodeValues::integers:
      return code;
    case CodeValues::e2m1:
      return e2m1_to_float(code);
    case CodeValues::iq4:
      return kIq4Values[code & 15];
    case CodeValues::e4m3:
      return e4m3_to_float(code);
  }
  return 0;
}

}  // namespace

void check_quantization(const QuantizationSpec& spec, std::int64_t columns, std::string_view name) {
  const auto refuse = [name](const std::string& what) { throw_error(ErrorCode::unsupported, "{}: {}", name, what); };
  const bool w8a8 = spec.scheme == CodeScheme::w8a8, two_level = spec.scheme == CodeScheme::two_level;
  const bool integers = spec.values == CodeValues::integers;
  if (spec.bits < 2 || spec.bits > 8 || spec.bits == 7 || (w8a8 && spec.bits != 8)) {
    refuse(fmt::format("codes of {} bits; sparkx has 2 to 6 and 8, with 8-bit activations 8", spec.bits));
  }
  if (!integers && spec.bits != (spec.values == CodeValues::e4m3 ? 8 : 4)) {
    refuse(fmt::format("codes of {} bits for values that have another number of them", spec.bits));
  }
  if (!integers && spec.scheme != CodeScheme::offset && (!two_level || spec.values != CodeValues::iq4)) {
    refuse("values that are no integers have one scale a group");
  }
  const bool sub_block = spec.group == 16 || spec.group == 32;
  const bool group = spec.group == 32 || spec.group == 64 || spec.group == 128 || spec.group == kWholeRow ||
                     (spec.group == 16 && spec.values == CodeValues::e2m1);
  if (two_level ? !sub_block : w8a8 ? spec.group != kWholeRow : !group) {
    refuse(
        fmt::format("groups of {} columns; sparkx has 32, 64, 128 and one scale a row, with 8-bit activations only "
                    "the latter, with E2M1 codes also 16, and in two levels 16 and 32",
                    spec.group));
  }
  if (two_level && columns % kSuperBlock != 0) {
    refuse(fmt::format("{} columns; in two levels they are a multiple of {}", columns, kSuperBlock));
  }
  if (spec.minima && !two_level) refuse("minima without two levels");
  if (spec.zero < 0 || spec.zero >= 1 << spec.bits || (!integers && spec.zero != 0)) {
    refuse(fmt::format("the zero point {} is no code of {} bits", spec.zero, spec.bits));
  }
  if (w8a8 && columns > kMaxTokenCodeColumns) {
    refuse(fmt::format("{} columns; sums of 8-bit codes fit 32 bits up to {}", columns, kMaxTokenCodeColumns));
  }
  if (!is_float(spec.scale_dtype) && (integers || two_level || !is_small_float(spec.scale_dtype))) {
    refuse(
        fmt::format("scales of type {}; sparkx has float32, float16 and bfloat16, for codes of floats also of 8 bits",
                    dtype_name(spec.scale_dtype)));
  }
}

CodeStorage::CodeStorage(const QuantizationSpec& spec, std::int64_t rows, std::int64_t columns) {
  const auto scales = static_cast<std::size_t>(rows * spec.scales(columns));
  const auto groups = static_cast<std::size_t>(rows * spec.groups(columns));
  const bool two_level = spec.scheme == CodeScheme::two_level;
  codes_.resize(static_cast<std::size_t>(rows * columns));
  scales_.resize(scales);
  if (spec.scheme == CodeScheme::affine || spec.minima) biases_.resize(scales);
  if (spec.scheme == CodeScheme::zero_point) zeros_.resize(groups);
  if (two_level) sub_scales_.resize(groups);
  if (spec.minima) sub_minima_.resize(groups);
}

CodeBuffers CodeStorage::buffers() {
  return {codes_.data(), scales_.data(), biases_.data(), zeros_.data(), sub_scales_.data(), sub_minima_.data()};
}

void decode_rows(const QuantizationSpec& spec, std::int64_t rows, std::int64_t columns, const CodeBuffers& codes,
                 float* out) {
  float values[256];
  for (int code = 0; code < 1 << spec.bits; ++code) {
    values[code] = value_of(spec.values, static_cast<std::uint8_t>(code)) - static_cast<float>(spec.zero);
  }
  const std::int64_t groups = spec.groups(columns), scales = spec.scales(columns);
  const std::int64_t group_columns = spec.group == kWholeRow ? columns : spec.group;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t begin = g * group_columns,
                         end = begin + group_columns < columns ? begin + group_columns : columns;
      const std::int64_t group = row * groups + g;
      const std::int64_t of_scale = spec.scheme == CodeScheme::two_level ? row * scales + begin / kSuperBlock : group;
      float scale = codes.scales[of_scale];
      if (spec.scheme == CodeScheme::two_level) scale *= static_cast<float>(codes.sub_scales[group]);
      const std::uint8_t* from = codes.codes + row * columns;
      float* to = out + row * columns;
      if (spec.scheme == CodeScheme::affine || spec.minima) {
        const float bias = spec.minima ? -(codes.biases[of_scale] * static_cast<float>(codes.sub_minima[group]))
                                       : codes.biases[of_scale];
        for (std::int64_t k = begin; k < end; ++k) to[k] = std::fma(scale, values[from[k]], bias);
      } else {
        const float zero = spec.scheme == CodeScheme::zero_point ? static_cast<float>(codes.zeros[group]) : 0.0f;
        for (std::int64_t k = begin; k < end; ++k) to[k] = scale * (values[from[k]] - zero);
      }
    }
  }
}

void read_weights(const QuantizedMatrix& matrix, std::int64_t columns, std::int64_t row_begin, std::int64_t row_end,
                  float* out) {
  const std::int64_t rows = row_end - row_begin;
  CodeStorage storage(matrix.spec, rows, columns);
  matrix.read(row_begin, row_end, storage.buffers());
  decode_rows(matrix.spec, rows, columns, storage.buffers(), out);
  if (matrix.column_order.empty()) return;
  std::vector<float> sorted(static_cast<std::size_t>(columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    float* to = out + row * columns;
    sorted.assign(to, to + columns);
    for (std::size_t i = 0; i < sorted.size(); ++i) to[matrix.column_order[i]] = sorted[i];
  }
}

}  // namespace sparkx
