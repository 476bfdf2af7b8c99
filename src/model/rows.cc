#include "model/rows.h"

#include "core/bfloat16.h"

namespace sparkx {

using kernels::ActivationForm;
using kernels::kStretchColumns;

namespace {

std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}

// Columns that a row of codes has room for: whole groups of 64, and an odd number of them. With 2048, say, the same
// columns of all tokens would lie in two sets of the first-level cache, and push each other out.
std::int64_t code_columns(std::int64_t columns) {
  return (round_up(columns, 64) / 64 | 1) * 64;
}

constexpr ActivationForm kForms[] = {ActivationForm::groups_64, ActivationForm::groups_32, ActivationForm::token_codes};

// How many numbers of each sort a token's codes come with.
struct Counts {
  Counts(ActivationForm form, std::int64_t padded_columns) {
    const int group = kernels::form_group(form);
    if (group == kWholeRow) {
      scales = sums = 1;
      return;
    }
    scales = padded_columns / group;
    stretches = padded_columns / kStretchColumns;
    if (form == ActivationForm::groups_64) quarters = padded_columns / kernels::kLanes;
    // A group that is a stretch has its sums there.
    sums = scaled_sums = group == kStretchColumns ? 0 : scales;
  }
  std::int64_t scales = 0, sums = 0, scaled_sums = 0, stretches = 0, quarters = 0;
};

}  // namespace

Rows::Rows(std::int64_t rows, std::int64_t columns)
    : stride(round_up(columns, kernels::kLanes)), values(rows * stride) {}

InputRows::InputRows(std::int64_t rows, std::int64_t columns, ActivationForms forms)
    : columns_(columns),
      code_stride_(code_columns(columns)),
      stretch_stride_(code_stride_ / kStretchColumns),
      rows_(rows, columns),
      rounded_(forms.has(ActivationForm::bfloat16) ? rows * code_stride_ : 0) {
  for (ActivationForm form : kForms) {
    if (!forms.has(form)) continue;
    const Counts counts(form, code_stride_);
    codes_[static_cast<int>(form)] = {
        AlignedBuffer<std::int8_t>(rows * code_stride_),    AlignedBuffer<float>(rows * counts.scales),
        AlignedBuffer<float>(rows * counts.sums),           AlignedBuffer<float>(rows * counts.scaled_sums),
        AlignedBuffer<float>(rows * counts.stretches),      AlignedBuffer<float>(rows * counts.stretches),
        AlignedBuffer<std::int16_t>(rows * counts.quarters)};
  }
}

std::size_t InputRows::row_bytes(std::int64_t columns, ActivationForms forms) {
  const std::int64_t padded = code_columns(columns);
  std::size_t bytes = round_up(columns, kernels::kLanes) * sizeof(float);
  for (ActivationForm form : kForms) {
    if (!forms.has(form)) continue;
    const Counts counts(form, padded);
    bytes += padded + (counts.scales + counts.sums + counts.scaled_sums + 2 * counts.stretches) * sizeof(float) +
             counts.quarters * sizeof(std::int16_t);
  }
  if (forms.has(ActivationForm::bfloat16)) bytes += padded * sizeof(std::uint16_t);
  return bytes;
}

kernels::CodedActivations InputRows::codes(ActivationForm form, std::int64_t tokens) const {
  const Codes& codes = codes_[static_cast<int>(form)];
  const int group = kernels::form_group(form);
  kernels::CodedActivations x{};
  x.group = group;
  x.codes = codes.codes.data();
  x.code_stride = code_stride_;
  x.scales = codes.scales.data();
  x.sums = codes.sums.empty() ? codes.stretch_sums.data() : codes.sums.data();
  x.scaled_sums = codes.scaled_sums.empty() ? codes.scaled_stretch_sums.data() : codes.scaled_sums.data();
  x.group_stride = group == kWholeRow ? 1 : code_stride_ / group;
  x.stretch_sums = codes.stretch_sums.data();
  x.scaled_stretch_sums = codes.scaled_stretch_sums.data();
  x.stretch_stride = stretch_stride_;
  x.quarter_sums = codes.quarter_sums.data();
  x.tokens = tokens;
  return x;
}

kernels::CodedRow InputRows::coded_row(ActivationForm form, std::int64_t token, std::int64_t begin) {
  Codes& codes = codes_[static_cast<int>(form)];
  const Counts counts(form, code_stride_);
  const int group = kernels::form_group(form);
  const std::int64_t first = group == kWholeRow ? 0 : begin / group;
  const std::int64_t stretch = token * counts.stretches + begin / kStretchColumns;
  // Null where the form has no such numbers.
  const auto at = [](auto& buffer, std::int64_t offset) { return buffer.empty() ? nullptr : buffer.data() + offset; };
  return {codes.codes.data() + token * code_stride_ + begin,
          codes.scales.data() + token * counts.scales + first,
          at(codes.sums, token * counts.sums + first),
          at(codes.scaled_sums, token * counts.scaled_sums + first),
          at(codes.stretch_sums, stretch),
          at(codes.scaled_stretch_sums, stretch),
          at(codes.quarter_sums, token * counts.quarters + begin / kernels::kLanes)};
}

void InputRows::code(const kernels::KernelTable& kernels, ActivationForms forms, std::int64_t token, std::int64_t begin,
                     std::int64_t end) {
  for (ActivationForm form : {ActivationForm::groups_64, ActivationForm::groups_32}) {
    if (!forms.has(form)) continue;
    kernels.code_activations(row(token) + begin, end - begin, kernels::form_group(form), coded_row(form, token, begin));
  }
  if (!forms.has(ActivationForm::bfloat16)) return;
  const float* values = row(token);
  std::uint16_t* rounded = rounded_.data() + token * code_stride_;
  for (std::int64_t k = begin; k < end; ++k) rounded[k] = float_to_bfloat16(values[k]);
}

void InputRows::gather(const kernels::KernelTable& kernels, ActivationForms forms, std::int64_t token,
                       const float* from, const std::int32_t* order) {
  float* to = row(token);
  for (std::int64_t i = 0; i < columns_; ++i) to[i] = from[order[i]];
  code(kernels, forms, token);
}

void InputRows::code_token(const kernels::KernelTable& kernels, ActivationForms forms, std::int64_t token) {
  if (!forms.has(ActivationForm::token_codes)) return;
  kernels.code_token(row(token), columns_, coded_row(ActivationForm::token_codes, token, 0));
}

}  // namespace sparkx
