// Matrices of floats with one row a token, and what projections read: such rows, and their codes for weights that want
// codes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/aligned_buffer.h"
#include "kernels/kernels.h"

namespace sparkx {

// [tokens][stride], zero behind the columns.
struct Rows {
  Rows(std::int64_t rows, std::int64_t columns);
  float* row(std::int64_t token) { return values.data() + token * stride; }
  const float* row(std::int64_t token) const { return values.data() + token * stride; }

  std::int64_t stride;
  AlignedBuffer<float> values;
};

// Which forms of activations are wanted beside the values.
class ActivationForms {
 public:
  constexpr ActivationForms() = default;
  static constexpr ActivationForms of(kernels::ActivationForm form) {
    ActivationForms forms;
    if (form != kernels::ActivationForm::values) forms.bits_ = 1u << static_cast<int>(form);
    return forms;
  }
  constexpr ActivationForms operator|(ActivationForms other) const {
    other.bits_ |= bits_;
    return other;
  }
  constexpr bool has(kernels::ActivationForm form) const { return (bits_ >> static_cast<int>(form) & 1) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  unsigned bits_ = 0;
};

class InputRows {
 public:
  // With room for `forms`.
  InputRows(std::int64_t rows, std::int64_t columns, ActivationForms forms);

  float* row(std::int64_t token) { return rows_.row(token); }
  const float* row(std::int64_t token) const { return rows_.row(token); }
  std::int64_t stride() const { return rows_.stride; }
  kernels::Activations values(std::int64_t tokens) const { return {rows_.values.data(), rows_.stride, tokens}; }
  kernels::Bfloat16Activations rounded(std::int64_t tokens) const { return {rounded_.data(), code_stride_, tokens}; }
  kernels::CodedActivations codes(kernels::ActivationForm form, std::int64_t tokens) const;

  // Sets row `token` to the columns of `from` in this order, and makes `forms` of it.
  void gather(const kernels::KernelTable& kernels, ActivationForms forms, std::int64_t token, const float* from,
              const std::int32_t* order);

  // Makes those of `forms` that need no more than some columns, for columns [begin, end) of a row; begin is a multiple
  // of 64.
  void code(const kernels::KernelTable& kernels, ActivationForms forms, std::int64_t token, std::int64_t begin,
            std::int64_t end);
  // Makes those that need the whole row.
  void code_token(const kernels::KernelTable& kernels, ActivationForms forms, std::int64_t token);
  // Makes all of them.
  void code(const kernels::KernelTable& kernels, ActivationForms forms, std::int64_t token) {
    code(kernels, forms, token, 0, columns_);
    code_token(kernels, forms, token);
  }

  // What one row of such a matrix takes.
  static std::size_t row_bytes(std::int64_t columns, ActivationForms forms);

 private:
  // See CodedActivations; empty is what a form does not have.
  struct Codes {
    AlignedBuffer<std::int8_t> codes;
    AlignedBuffer<float> scales;
    AlignedBuffer<float> sums;
    AlignedBuffer<float> scaled_sums;
    AlignedBuffer<float> stretch_sums;
    AlignedBuffer<float> scaled_stretch_sums;
    AlignedBuffer<std::int16_t> quarter_sums;
  };
  kernels::CodedRow coded_row(kernels::ActivationForm form, std::int64_t token, std::int64_t begin);

  std::int64_t columns_;
  std::int64_t code_stride_;
  std::int64_t stretch_stride_;
  Rows rows_;
  std::array<Codes, kernels::kActivationForms> codes_;
  AlignedBuffer<std::uint16_t> rounded_;  // [row][code_stride_], of ActivationForm::bfloat16
};

}  // namespace sparkx
