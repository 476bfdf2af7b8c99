// The contract of the kernels: every sum of the forward pass, one table of functions for each instruction set.
//
// All tables give the same bits (docs/numerics.md fixes each sum); the scalar table, "reference", defines them. Kernels
// are written once on the 16-lane layer of kernels/simd/ and compiled once for each instruction set; nothing here
// allocates, locks or throws, and arguments are trusted: whoever calls has checked every shape.
//
// Conventions. A panel is 16 consecutive output rows of a weight matrix, one row a lane. Pointers marked [n16] have
// room for n rounded up to 16 floats, and what lies behind n is zero on input. Buffers are 64-byte aligned, strides are
// in floats and multiples of 16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/code_scheme.h"

namespace sparkx::kernels {

inline constexpr int kLanes = 16;           // rows of a panel, keys of a key panel
inline constexpr int kBlockColumns = 1024;  // K is summed in blocks of so many columns (rule 1)
inline constexpr int kBlockPositions = 64;  // positions of one KV cache block
inline constexpr int kSpanPositions = 512;  // positions of one attention span (rule 9)
inline constexpr int kSpanBlocks = kSpanPositions / kBlockPositions;

inline constexpr int kStretchColumns = 32;  // codes are multiplied and stored in stretches of so many columns

// How the weights of a Linear are stored. A kind is a layout (here and in docs/kernels.md), a dot and a row decoder.
enum class WeightKind {
  float32,
  bfloat16,
  float16,
  codes2,  // unsigned codes of 2 bits, of which a CodeScheme makes weights
  codes3,  // and so on
  codes4,
  codes5,
  codes6,
  codes8,
  e2m1,  // codes of 4 bits whose values stand in a table (core/code_scheme.h)
  iq4,   // likewise
  e4m3,  // floats of 8 bits, always decoded
};
inline constexpr int kWeightKinds = 12;
inline constexpr int kDenseKinds = 3;  // the first ones

constexpr bool is_dense(WeightKind kind) {
  return static_cast<int>(kind) < kDenseKinds;
}

// Bits of a code. They lie in one plane or in two: 2, 4, 8 and 2 + 1, 4 + 1, 4 + 2.
constexpr int code_bits(WeightKind kind) {
  constexpr int kBits[] = {0, 0, 0, 2, 3, 4, 5, 6, 8, 4, 4, 8};
  return kBits[static_cast<int>(kind)];
}
constexpr int low_plane_bits(WeightKind kind) {
  const int bits = code_bits(kind);
  return bits == 8 ? 8 : bits >= 4 ? 4 : 2;
}
constexpr int high_plane_bits(WeightKind kind) {
  return code_bits(kind) - low_plane_bits(kind);
}

// Of a scheme of two levels: columns that share a sub-scale, whether there are minima, and what codes lose. Each kind
// has one such format: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K and IQ4_XS of GGUF files.
constexpr bool has_two_levels(WeightKind kind) {
  return !is_dense(kind) && code_bits(kind) <= 6 && kind != WeightKind::e2m1;
}
constexpr int sub_block_columns(WeightKind kind) {
  return kind == WeightKind::codes4 || kind == WeightKind::codes5 || kind == WeightKind::iq4 ? 32 : 16;
}
constexpr bool has_minima(WeightKind kind) {
  return kind == WeightKind::codes2 || kind == WeightKind::codes4 || kind == WeightKind::codes5;
}
constexpr int two_level_zero(WeightKind kind) {
  return kind == WeightKind::codes3 ? 4 : kind == WeightKind::codes6 ? 32 : kind == WeightKind::iq4 ? 128 : 0;
}
// What the values of a table are stored with added, to be unsigned; those of E2M1 doubled, for their scales halved.
constexpr int table_zero(WeightKind kind) {
  return kind == WeightKind::e2m1 ? 12 : kind == WeightKind::iq4 ? 128 : 0;
}

// Rule 2: whether values have 8 bits, so that they meet activations in groups of 32. With two levels those of 64
// columns are added up as integers.
constexpr bool has_8_bits(WeightKind kind, bool two_levels = false) {
  return kind == WeightKind::codes8 || (kind == WeightKind::iq4 && !two_levels);
}

// The forms in which activations meet weights.
enum class ActivationForm {
  values,       // floats
  groups_64,    // codes with a scale for each 64 columns (rule 2)
  groups_32,    // the same for each 32
  token_codes,  // codes with one scale for the whole row (rule 5)
  bfloat16,     // rounded to bfloat16, for --dtype bfloat16-fast
};
inline constexpr int kActivationForms = 5;

struct WeightFormat {
  WeightKind kind;
  // Of codes: how many columns share a scale, 32, 64, 128 or kWholeRow, of e2m1 also 16; with two levels those that
  // share a sub-scale. The kind of the scales and biases: a dense one, of e2m1 in groups of 16 e4m3.
  int group = 0;
  WeightKind scale_kind = WeightKind::float32;
  CodeScheme scheme = CodeScheme::affine;
  int zero = 0;  // of offset, w8a8 and two_level: what codes lose, 0 to 255

  bool operator==(const WeightFormat&) const = default;
};

// The form that weights of this format want when they are multiplied as integers.
constexpr ActivationForm coded_form(const WeightFormat& format) {
  if (is_dense(format.kind) || format.kind == WeightKind::e4m3) return ActivationForm::values;
  if (format.scheme == CodeScheme::w8a8) return ActivationForm::token_codes;
  const bool two_levels = format.scheme == CodeScheme::two_level;
  return has_8_bits(format.kind, two_levels) ? ActivationForm::groups_32 : ActivationForm::groups_64;
}

// Rule 2: columns that share a scale; of the other forms kWholeRow.
constexpr int form_group(ActivationForm form) {
  return form == ActivationForm::groups_64 ? 64 : form == ActivationForm::groups_32 ? 32 : kWholeRow;
}

// A weight matrix [rows][columns] packed into panels (kernels/pack.h). Inside a panel K runs in groups of 4 bytes, so
// that one 64-byte load feeds 16 lanes; rows and columns that do not exist are zero.
//   float32   [column][16]
//   bfloat16, float16   [column / 2][16][2]
//   codes     for each group: scales [16], biases [16] or zeros [16] (bytes) where the scheme has them, then codes
//             up to a whole stretch of 32 columns, each stretch 64 bytes a bit:
//     codes8, e4m3        [column / 4][16][4]
//     codes4, e2m1, iq4   [column / 8][16][4]: byte j has column j in its low half and column j + 4 in its high half
//     codes2              [column / 16][16][4]: byte j has columns j, j + 4, j + 8 and j + 12, from the lowest bits up
//     codes3, codes5, codes6   a stretch of codes2 or codes4, then the upper bits in the same way: 1 bit [16][4],
//                         byte j has columns j, j + 4, … j + 28; 2 bits as codes2
//   e2m1 in groups of 16: four groups together, their scales [4][16], then their codes
//   two levels: for each 256 columns d [16], dmin [16] where there are minima, sub-scales [4][16][4] (of iq4
//             [2][16][4]), codes; what the four bytes of a lane are stands in kernels/code_layout.inc.h
struct PanelMatrix {
  WeightFormat format;
  std::int64_t rows;
  std::int64_t columns;
  std::size_t panel_bytes;  // bytes from one panel to the next, a multiple of 64
  const std::byte* panels;  // [ceil(rows / 16)] panels
  const float* bias;        // [rows16], or null for none

  std::int64_t panel_count() const { return (rows + kLanes - 1) / kLanes; }
};

// The input of a Linear: `tokens` rows of floats.
struct Activations {
  const float* values;  // [tokens][stride], zero behind the matrix's columns
  std::int64_t stride;
  std::int64_t tokens;
};

// The same as codes (rules 2 and 5), for weights that are codes too.
struct CodedActivations {
  int group;                 // columns of a group: 64, 32 or kWholeRow
  const std::int8_t* codes;  // [tokens][code_stride], zero behind the columns up to a multiple of 64
  std::int64_t code_stride;  // in bytes, a multiple of 64
  const float* scales;       // [tokens][group_stride]: s_a of each group
  const float* sums;         // [tokens][group_stride]: S, the sum of the codes of each group, exact
  const float* scaled_sums;  // [tokens][group_stride]: s_a * S; not with kWholeRow
  std::int64_t group_stride;
  // The two sums of each stretch of 32 columns; not with kWholeRow.
  const float* stretch_sums;         // [tokens][stretch_stride]
  const float* scaled_stretch_sums;  // [tokens][stretch_stride]
  std::int64_t stretch_stride;
  // With groups of 64: S of each 16 columns, four to a group in the order 0, 2, 1, 3.
  const std::int16_t* quarter_sums;  // [tokens][2 * stretch_stride]
  std::int64_t tokens;
};

// Where code_activations writes what CodedActivations has of one token.
struct CodedRow {
  std::int8_t* codes;
  float* scales;
  float* sums;
  float* scaled_sums;
  float* stretch_sums;
  float* scaled_stretch_sums;
  std::int16_t* quarter_sums;
};

// The same rounded to bfloat16, for dot_bfloat16.
struct Bfloat16Activations {
  const std::uint16_t* values;  // [tokens][stride], zero behind the columns up to an even number
  std::int64_t stride;          // in elements
  std::int64_t tokens;
};

// How keys and values are stored in the cache.
enum class KvKind { float32, bfloat16, int8 };
inline constexpr int kKvKinds = 3;
inline constexpr int kKvGroup = 64;         // int8: channels that share a scale (rule 10)
inline constexpr int kKeyCodeOffset = 128;  // int8: a key's code q is stored as the unsigned byte q + 128

// One cache block holds, for one layer and one KV head, 64 positions of K and of V.
//   K: four key panels of 16 keys: float32 [channel][16], bfloat16 [channel / 2][16][2]  (head_dim is even)
//      int8: for each group of 64 channels scales [16], then codes [channel / 4][16][4] up to a stretch of 32 channels
//   V: [position][channel]
//      int8: codes, a position's channels up to a multiple of 16, and behind all positions scales [group][position]
// Both take kv_block_bytes(kind, head_dim).
std::size_t kv_block_bytes(KvKind kind, int head_dim);

// One span of attention for `rows` queries that share a KV head (rule 9). A row is one (token, query head) pair.
struct AttentionSpan {
  KvKind kind;
  int head_dim;
  const std::byte* keys[kSpanBlocks];    // K of each block of the span; null where no row sees a key of the block
  const std::byte* values[kSpanBlocks];  // V, likewise
  int rows;
  const float* queries;  // [rows][query_stride], rotated, not scaled
  std::int64_t query_stride;
  const std::int32_t* first_visible;  // [rows] first visible key, counted from the start of the span
  const std::int32_t* end_visible;    // [rows] one past the last; first >= end: the row sees nothing here
  float scale;                        // 1 / sqrt(head_dim)
  // K of the span that is computed next, to be fetched from memory meanwhile; null where nothing is known.
  const std::byte* next_keys[kSpanBlocks];
};

// The running result of some rows over the spans seen so far. max = -inf and nothing else defined: none seen yet.
struct AttentionState {
  float* max;     // [rows]
  float* sum;     // [rows]
  float* output;  // [rows][output_stride], not yet divided by sum
  std::int64_t output_stride;
};

struct KernelTable {
  const char* name;             // "reference", "avx2", … as SPARKX_ISA spells it
  const char* instruction_set;  // what the CPU must have, for messages: "AVX2, FMA and F16C"
  const char* caveat;           // how far it was tested, if not on such a CPU; else empty
  int token_tile;               // tokens that one register tile of dot holds; callers balance their ranges on it
  int code_token_tile;          // the same of dot_codes

  // Rule 1, of quantized weights as rule 4 decodes them: out[t][lane] = W · x_t + bias for panels [panel_begin,
  // panel_end) and tokens [token_begin, token_end): out[(t - token_begin) * out_stride + (panel - panel_begin) * 16 +
  // lane]. Indexed by WeightKind. Float GEMV walks several panels at once to hide latency, so give it ranges of panels.
  void (*dot[kWeightKinds])(const PanelMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                            const Activations& x, std::int64_t token_begin, std::int64_t token_end, float* out,
                            std::int64_t out_stride);

  // Rules 3 and 5: the same with activations as codes, of the form coded_form(w.format). Null for dense kinds and e4m3.
  void (*dot_codes[kWeightKinds])(const PanelMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                                  const CodedActivations& x, std::int64_t token_begin, std::int64_t token_end,
                                  float* out, std::int64_t out_stride);

  // --dtype bfloat16-fast: dot of a bfloat16 matrix in the order and with the roundings of the CPU's own instruction,
  // the one kernel that differs between tables. Null where the instruction set has none; see has_fast_bfloat16.
  void (*dot_bfloat16)(const PanelMatrix& w, std::int64_t panel_begin, std::int64_t panel_end,
                       const Bfloat16Activations& x, std::int64_t token_begin, std::int64_t token_end, float* out,
                       std::int64_t out_stride);

  // Rule 2, for n columns of one token that begin at a multiple of 64, in groups of 64 or 32: codes and sums of
  // stretches are written up to the next multiple of 64. With groups of 32 a group is a stretch: its sums are not
  // written twice, and sums and scaled_sums of `out` not used.
  void (*code_activations)(const float* x, std::int64_t n, int group, const CodedRow& out);

  // Rule 5, for all n columns of one token; of `out` codes, scales[0] and sums[0] are written.
  void (*code_token)(const float* x, std::int64_t n, const CodedRow& out);

  // Quantizes one row as MLX does (docs/model.md, MLX checkpoint format): `bits` 2 to 6 or 8, `columns` a multiple of
  // `group`, a multiple of 16. codes [columns], scales and biases [columns / group], not yet rounded to the row's type.
  // Indexed by the dense kind of the row.
  void (*quantize_affine[kDenseKinds])(const std::byte* row, std::int64_t columns, int bits, int group,
                                       std::uint8_t* codes, float* scales, float* biases);

  // out[0 … columns) = row `row` of w as floats (embedding rows, rule 4).
  void (*decode_row[kWeightKinds])(const PanelMatrix& w, std::int64_t row, float* out);

  // Rule 6. x, weight, y: [n16].
  void (*rms_norm)(const float* x, const float* weight, std::int64_t n, float eps, float* y);

  // Rule 7, in place: channel i pairs with i + rotary_dims / 2. cos, sin: [rotary_dims / 2].
  void (*rope)(float* head, const float* cos, const float* sin, int rotary_dims);

  // Rule 8. out[i] = ((0.5·gate[i])·(1 + erf(gate[i]·0.70710678)))·up[i]; out may be gate or up.
  void (*gelu_mul)(const float* gate, const float* up, std::int64_t n, float* out);

  // Rule 8: x[i] = x[i] + y[i].
  void (*add)(float* x, const float* y, std::int64_t n);

  // Stores one position of a block of the cache: `slot` in [0, 64), key and value [head_dim], rounded to the kind.
  void (*store_key[kKvKinds])(std::byte* keys, int slot, const float* key, int head_dim);
  void (*store_value[kKvKinds])(std::byte* values, int slot, const float* value, int head_dim);

  // Rule 9 for one span: writes (m, l, o) of the rows to `span`; a row without a visible key gets m = -inf and nothing
  // else. A masked key, even a NaN in a stale slot, never touches l and o. `scratch`: attention_scratch_floats(rows,
  // head_dim) floats.
  void (*attention_span)(const AttentionSpan& args, const AttentionState& span, float* scratch);

  // Rule 9: state = state merged with the next span, for `rows` rows.
  void (*attention_merge)(const AttentionState& state, const AttentionState& span, int rows, int head_dim);

  // Rules 8 and 9: out[row] = (output / sum) · sigmoid(gate[row]); out [rows][out_stride], gate read at row *
  // gate_stride.
  void (*attention_finish)(const AttentionState& state, int rows, int head_dim, const float* gate,
                           std::int64_t gate_stride, float* out, std::int64_t out_stride);

  // Rule 11, for the sampler: terms[i] = exp(logits[i] - max), returns their sum (partial sums by index mod 16, then
  // the tree). logits of -inf give 0. terms may be logits.
  float (*exp_sum)(const float* logits, std::int64_t n, float max, float* terms);
};

// Floats of scratch that attention_span needs for so many rows: it keeps the scores of at most kAttentionRows of them,
// and with an int8 cache their queries as codes: of each group a scale, a sum and 64 bytes.
inline constexpr int kAttentionRows = 32;
constexpr std::size_t attention_scratch_floats(int rows, int head_dim) {
  const int groups = (head_dim + kKvGroup - 1) / kKvGroup;
  return static_cast<std::size_t>(rows < kAttentionRows ? rows : kAttentionRows) *
         (kSpanPositions + groups * (2 + kKvGroup / sizeof(float)));
}

// The tables compiled into this program, the reference first; those the CPU cannot run are listed too.
std::span<const KernelTable* const> kernel_tables();
bool runs_on_this_cpu(const KernelTable& table);
// Whether the table has dot_bfloat16 and the CPU the instruction for it.
bool has_fast_bfloat16(const KernelTable& table);

// The table in use: SPARKX_ISA names one (Error{unsupported} when it is unknown or the CPU lacks it), else the best.
const KernelTable& kernel_table();
// By name; the same errors.
const KernelTable& kernel_table(std::string_view name);

}  // namespace sparkx::kernels
