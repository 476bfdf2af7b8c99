// Rule 3 of docs/numerics.md for one token, as in decoding: the sums of CodeTile (coded_dot.inc.h) where memory is to
// be what bounds them. So little is done beside the products: what a group shares is loaded once, and the products of a
// run are one call of the layer (run_products).
#pragma once

#include "kernels/code_layout.inc.h"
#include "kernels/kernels.h"

namespace sparkx::kernels {
namespace {

// What a run gives to its lanes' chains.
enum class RunTerms {
  biases,  // affine: s·s_a·D, and after the weight group's last run b·T
  zeros,   // s·s_a·I with I = D - z·S
  rows,    // one scale a row: s_a·I, and the scale at the end
};

// The activations of one block of columns.
struct TokenBlock {
  const std::int8_t* codes;
  const float* scales;       // of each group
  const float* sums;         // S of each run
  const float* scaled_sums;  // s_a·S of each run
};

// The chains of a block of `columns` columns, whose first group lies at `group`; activations come in groups of
// `x_group`. Not inlined, so that its pointers have the registers for themselves.
template <WeightKind kind, RunTerms terms, int x_group>
__attribute__((noinline)) F32x16 one_token_block(const std::byte* group, const CodeLayout& layout, std::int64_t columns,
                                                 TokenBlock x) {
  const std::int64_t group_columns = layout.group, group_bytes = layout.group_bytes, codes_offset = layout.codes_offset;
  const bool whole_runs = group_columns >= x_group;  // else a run is a stretch, and two have one s_a
  F32x16 acc = splat<F32x16>(0.0f);
  for (std::int64_t k = 0; k < columns; group += group_bytes) {
    const std::byte* codes = group + codes_offset;
    const std::int64_t end = columns - k < group_columns ? columns : k + group_columns;
    const F32x16 scale = load_group_scales<kind>(group, layout);
    const F32x16 second =
        terms == RunTerms::biases ? load_group_biases(group, layout) : negate(load_group_zeros(group, layout));
    F32x16 total = splat<F32x16>(0.0f);  // T of the rule
    const std::int64_t first = k;
    do {
      const int stretches = x_group == kStretchColumns || !whole_runs || end - k <= kStretchColumns ? 1 : 2;
      const I32x16 d = run_products<kind>(codes, x.codes, stretches);
      const F32x16 s_a = splat<F32x16>(*x.scales);
      if constexpr (terms == RunTerms::biases) {
        acc = fma(scale, s_a * to_float(d), acc);
        const F32x16 term = splat<F32x16>(*x.scaled_sums++);
        total = k == first ? term : total + term;
      } else {
        // I has at most 24 bits, as D and z·S have: the fma is exact.
        const F32x16 i = fma(second, splat<F32x16>(*x.sums++), to_float(d));
        acc = terms == RunTerms::rows ? fma(s_a, i, acc) : fma(scale, s_a * i, acc);
      }
      const std::int64_t run = whole_runs ? x_group : kStretchColumns;
      k += run;
      codes += run / kStretchColumns * kStretchBytes<kind>;
      x.codes += run;
      x.scales += k % x_group == 0;
    } while (k < end);
    if constexpr (terms == RunTerms::biases) acc = fma(second, total, acc);
  }
  return acc;
}

}  // namespace
}  // namespace sparkx::kernels
