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

// Which codes of activations are wanted (docs/numerics.md, rule 2): none, in groups of 64 columns, of 32, or both.
class CodeGroups {
 public:
  constexpr CodeGroups() = default;
  // 0: none.
  static constexpr CodeGroups of(int group) {
    CodeGroups groups;
    groups.bits_ = group == 64 ? 1 : group == 32 ? 2 : 0;
    return groups;
  }
  constexpr CodeGroups operator|(CodeGroups other) const {
    CodeGroups groups;
    groups.bits_ = bits_ | other.bits_;
    return groups;
  }
  constexpr bool has(int group) const { return (bits_ & of(group).bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  unsigned bits_ = 0;
};

class InputRows {
 public:
  // With room for the codes of `groups`.
  InputRows(std::int64_t rows, std::int64_t columns, CodeGroups groups);

  float* row(std::int64_t token) { return rows_.row(token); }
  std::int64_t stride() const { return rows_.stride; }
  kernels::Activations values(std::int64_t tokens) const { return {rows_.values.data(), rows_.stride, tokens}; }
  kernels::CodedActivations codes(int group, std::int64_t tokens) const;

  // Makes those of the codes that `groups` names, for columns [begin, end) of a row; begin is a multiple of 64.
  void code(const kernels::KernelTable& kernels, CodeGroups groups, std::int64_t token, std::int64_t begin,
            std::int64_t end);
  // The whole row.
  void code(const kernels::KernelTable& kernels, CodeGroups groups, std::int64_t token) {
    code(kernels, groups, token, 0, columns_);
  }

  // What one row of such a matrix takes.
  static std::size_t row_bytes(std::int64_t columns, CodeGroups groups);

 private:
  static constexpr std::array kGroups = {64, 32};
  struct Codes {
    AlignedBuffer<std::int8_t> codes;   // [row][code_stride_]
    AlignedBuffer<float> scales;        // [row][group_stride]
    AlignedBuffer<float> sums;          // likewise; none with groups of 32, of which stretch_sums are the sums
    AlignedBuffer<float> stretch_sums;  // [row][stretch_stride_]
  };
  std::int64_t group_stride(int group) const { return code_stride_ / group; }
  static std::size_t index(int group) { return group == kGroups[0] ? 0 : 1; }

  std::int64_t columns_;
  std::int64_t code_stride_;
  std::int64_t stretch_stride_;
  Rows rows_;
  std::array<Codes, kGroups.size()> codes_;
};

}  // namespace sparkx
