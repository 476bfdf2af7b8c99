// What the kernel tests share: tests that run once for each table, packed matrices, numbers that hurt.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/aligned_buffer.h"
#include "core/bfloat16.h"
#include "kernels/kernels.h"
#include "kernels/pack.h"

namespace sparkx::testing {

// TEST_P(EachTable, …) with INSTANTIATE_FOR_EACH_TABLE: once for each table of the program. A table that this CPU
// cannot run is skipped by name, never passed.
class EachTable : public ::testing::TestWithParam<const kernels::KernelTable*> {
 protected:
  void SetUp() override {
    if (!kernels::runs_on_this_cpu(table())) {
      GTEST_SKIP() << "untested here: table " << table().name << " needs " << table().instruction_set;
    }
  }
  const kernels::KernelTable& table() const { return *GetParam(); }
  static const kernels::KernelTable& reference() { return *kernels::kernel_tables()[0]; }
};

inline std::string table_name(const ::testing::TestParamInfo<const kernels::KernelTable*>& info) {
  return info.param->name;
}

#define INSTANTIATE_FOR_EACH_TABLE(Suite)                                                                        \
  INSTANTIATE_TEST_SUITE_P(                                                                                      \
      Tables, Suite,                                                                                             \
      ::testing::ValuesIn(::sparkx::kernels::kernel_tables().begin(), ::sparkx::kernels::kernel_tables().end()), \
      ::sparkx::testing::table_name)

inline std::int64_t round_up16(std::int64_t n) {
  return (n + 15) / 16 * 16;
}

// "" when all bits agree, else the first place where they do not.
inline std::string difference(std::span<const float> expected, std::span<const float> found) {
  if (expected.size() != found.size()) return "sizes differ";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto e = std::bit_cast<std::uint32_t>(expected[i]), f = std::bit_cast<std::uint32_t>(found[i]);
    if (e != f) {
      char text[160];
      std::snprintf(text, sizeof text, "[%zu]: expected %a (%08x), found %a (%08x)", i, expected[i], e, found[i], f);
      return text;
    }
  }
  return "";
}

// Numbers for tests, the same on every machine.
class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : engine_(seed) {}

  int integer(int low, int high) { return low + static_cast<int>(engine_() % static_cast<unsigned>(high - low + 1)); }
  float uniform() { return static_cast<float>(engine_() >> 8) * 0x1p-23f - 1.0f; }  // [-1, 1)

  // Finite numbers of every size, with zeros of both signs and denormals among them. Of products of two of them a
  // thousand can be added without overflow.
  float wild() {
    const float sign = engine_() % 2 ? 1.0f : -1.0f;
    switch (engine_() % 8) {
      case 0:
        return sign * 0.0f;
      case 1:
        return sign * std::bit_cast<float>(static_cast<std::uint32_t>(engine_() % 0x800000));  // a denormal
      case 2:
        return sign * 0x1p-126f;
      default:
        return std::ldexp(uniform(), integer(-100, 58));
    }
  }

  AlignedBuffer<float> fill(std::int64_t count, bool wild_ones = false) {
    AlignedBuffer<float> values(count);
    for (float& value : values) value = wild_ones ? wild() : uniform();
    return values;
  }

  // [rows][stride] with zeros behind the columns, as activations are.
  AlignedBuffer<float> rows(std::int64_t count, std::int64_t columns, bool wild_ones = false) {
    const std::int64_t stride = round_up16(columns);
    AlignedBuffer<float> values(count * stride);
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t k = 0; k < columns; ++k) values[r * stride + k] = wild_ones ? wild() : uniform();
    }
    return values;
  }

 private:
  std::mt19937 engine_;
};

// A matrix in panels.
class PackedMatrix {
 public:
  // Dense, from float rows [rows][columns].
  PackedMatrix(kernels::WeightKind kind, std::int64_t rows, std::int64_t columns, std::span<const float> weights,
               std::span<const float> bias = {})
      : PackedMatrix(kernels::WeightFormat{kind}, rows, columns, bias) {
    for (std::int64_t row = 0; row < rows; row += 16) {
      const int count = static_cast<int>(std::min<std::int64_t>(16, rows - row));
      kernels::pack_panel(kernels::WeightKind::float32, std::as_bytes(weights.subspan(row * columns, count * columns)),
                          count, columns, kind, panel(row));
    }
  }

  // Codes; `weights` has all rows.
  PackedMatrix(const kernels::WeightFormat& format, std::int64_t rows, std::int64_t columns,
               const kernels::CodeRows& weights, std::span<const float> bias = {})
      : PackedMatrix(format, rows, columns, bias) {
    const std::int64_t groups = kernels::group_count(format, columns), scales = kernels::scale_count(format, columns);
    const auto at = [](const auto* array, std::int64_t i) { return array == nullptr ? nullptr : array + i; };
    for (std::int64_t row = 0; row < rows; row += 16) {
      const int count = static_cast<int>(std::min<std::int64_t>(16, rows - row));
      kernels::pack_code_panel(
          format,
          {weights.codes + row * columns, weights.scales + row * scales, at(weights.biases, row * scales),
           at(weights.zeros, row * groups), at(weights.sub_scales, row * groups), at(weights.sub_minima, row * groups)},
          count, columns, panel(row));
    }
  }

  const kernels::PanelMatrix& operator*() const { return matrix_; }
  const kernels::PanelMatrix* operator->() const { return &matrix_; }

 private:
  PackedMatrix(const kernels::WeightFormat& format, std::int64_t rows, std::int64_t columns,
               std::span<const float> bias)
      : panels_((rows + 15) / 16 * kernels::panel_bytes(format, columns)), bias_(bias.empty() ? 0 : round_up16(rows)) {
    std::copy(bias.begin(), bias.end(), bias_.begin());
    std::fill(panels_.begin(), panels_.end(), std::byte{0x77});  // packing must write all of it
    matrix_ = {format,         rows,
               columns,        kernels::panel_bytes(format, columns),
               panels_.data(), bias.empty() ? nullptr : bias_.data()};
  }
  std::byte* panel(std::int64_t row) { return panels_.data() + row / 16 * matrix_.panel_bytes; }

  AlignedBuffer<std::byte> panels_;
  AlignedBuffer<float> bias_;
  kernels::PanelMatrix matrix_;
};

// Rows of activations as codes, made by a table from [tokens][columns rounded up to 16].
class CodedRows {
 public:
  CodedRows(const kernels::KernelTable& table, std::span<const float> values, std::int64_t columns,
            kernels::ActivationForm form) {
    const std::int64_t stride = round_up16(columns), padded = (columns + 63) / 64 * 64, stretches = padded / 32;
    const std::int64_t tokens = static_cast<std::int64_t>(values.size()) / stride;
    const bool by_token = form == kernels::ActivationForm::token_codes;
    const int group = kernels::form_group(form);
    const std::int64_t groups = by_token ? 1 : padded / group;
    codes_ = AlignedBuffer<std::int8_t>(tokens * padded);
    for (AlignedBuffer<float>* sums : {&scales_, &sums_, &scaled_sums_}) *sums = AlignedBuffer<float>(tokens * groups);
    for (AlignedBuffer<float>* sums : {&stretch_sums_, &scaled_stretch_sums_}) {
      *sums = AlignedBuffer<float>(tokens * stretches);
    }
    quarter_sums_ = AlignedBuffer<std::int16_t>(tokens * padded / 16);
    std::fill(codes_.begin(), codes_.end(), std::int8_t{77});
    for (std::int64_t t = 0; t < tokens; ++t) {
      const kernels::CodedRow out{codes_.data() + t * padded,
                                  scales_.data() + t * groups,
                                  sums_.data() + t * groups,
                                  scaled_sums_.data() + t * groups,
                                  stretch_sums_.data() + t * stretches,
                                  scaled_stretch_sums_.data() + t * stretches,
                                  quarter_sums_.data() + t * padded / 16};
      if (by_token) {
        table.code_token(values.data() + t * stride, columns, out);
      } else {
        table.code_activations(values.data() + t * stride, columns, group, out);
      }
    }
    const bool stretch_groups = group == 32;
    coded_ = {group,
              codes_.data(),
              padded,
              scales_.data(),
              (stretch_groups ? stretch_sums_ : sums_).data(),
              (stretch_groups ? scaled_stretch_sums_ : scaled_sums_).data(),
              groups,
              stretch_sums_.data(),
              scaled_stretch_sums_.data(),
              stretches,
              quarter_sums_.data(),
              tokens};
  }

  const kernels::CodedActivations& operator*() const { return coded_; }
  const kernels::CodedActivations* operator->() const { return &coded_; }

 private:
  AlignedBuffer<std::int8_t> codes_;
  AlignedBuffer<float> scales_, sums_, scaled_sums_, stretch_sums_, scaled_stretch_sums_;
  AlignedBuffer<std::int16_t> quarter_sums_;
  kernels::CodedActivations coded_;
};

}  // namespace sparkx::testing
