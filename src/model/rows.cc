#include "model/rows.h"

namespace sparkx {

namespace {

constexpr std::int64_t kCodePadding = 64;  // columns that codes are padded to

std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}

}  // namespace

Rows::Rows(std::int64_t rows, std::int64_t columns)
    : stride(round_up(columns, kernels::kLanes)), values(rows * stride) {}

InputRows::InputRows(std::int64_t rows, std::int64_t columns, CodeGroups groups)
    : columns_(columns),
      code_stride_(round_up(columns, kCodePadding)),
      stretch_stride_(code_stride_ / kernels::kStretchColumns),
      rows_(rows, columns) {
  for (int group : kGroups) {
    if (!groups.has(group)) continue;
    Codes& codes = codes_[index(group)];
    codes.codes = AlignedBuffer<std::int8_t>(rows * code_stride_);
    codes.scales = AlignedBuffer<float>(rows * group_stride(group));
    if (group != kernels::kStretchColumns) codes.sums = AlignedBuffer<float>(rows * group_stride(group));
    codes.stretch_sums = AlignedBuffer<float>(rows * stretch_stride_);
  }
}

std::size_t InputRows::row_bytes(std::int64_t columns, CodeGroups groups) {
  std::int64_t padded = round_up(columns, kCodePadding);
  std::size_t bytes = round_up(columns, kernels::kLanes) * sizeof(float);
  for (int group : kGroups) {
    if (!groups.has(group)) continue;
    std::int64_t arrays = group == kernels::kStretchColumns ? 1 : 2;
    bytes += padded + (arrays * padded / group + padded / kernels::kStretchColumns) * sizeof(float);
  }
  return bytes;
}

kernels::CodedActivations InputRows::codes(int group, std::int64_t tokens) const {
  const Codes& codes = codes_[index(group)];
  kernels::CodedActivations x{};
  x.group = group;
  x.codes = codes.codes.data();
  x.code_stride = code_stride_;
  x.scales = codes.scales.data();
  x.sums = codes.sums.empty() ? codes.stretch_sums.data() : codes.sums.data();
  x.group_stride = group_stride(group);
  x.stretch_sums = codes.stretch_sums.data();
  x.stretch_stride = stretch_stride_;
  x.tokens = tokens;
  return x;
}

void InputRows::code(const kernels::KernelTable& kernels, CodeGroups groups, std::int64_t token, std::int64_t begin,
                     std::int64_t end) {
  for (int group : kGroups) {
    if (!groups.has(group)) continue;
    Codes& codes = codes_[index(group)];
    float* stretch_sums = codes.stretch_sums.data() + token * stretch_stride_ + begin / kernels::kStretchColumns;
    std::int64_t first = token * group_stride(group) + begin / group;
    kernels.code_activations(row(token) + begin, end - begin, group, codes.codes.data() + token * code_stride_ + begin,
                             codes.scales.data() + first, codes.sums.empty() ? stretch_sums : codes.sums.data() + first,
                             stretch_sums);
  }
}

}  // namespace sparkx
