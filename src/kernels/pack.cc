#include "kernels/pack.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "core/bfloat16.h"
#include "kernels/cache_layout.inc.h"

namespace sparkx::kernels {

namespace {

template <WeightKind kind>
float widen(const std::byte* p) {
  if constexpr (kind == WeightKind::float32) {
    float value;
    std::memcpy(&value, p, sizeof value);
    return value;
  } else {
    std::uint16_t value;
    std::memcpy(&value, p, sizeof value);
    return kind == WeightKind::bfloat16 ? bfloat16_to_float(value) : float16_to_float(value);
  }
}

template <WeightKind kind>
auto narrow(float value) {
  if constexpr (kind == WeightKind::float32) return value;
  if constexpr (kind == WeightKind::bfloat16) return float_to_bfloat16(value);
  if constexpr (kind == WeightKind::float16) return float_to_float16(value);
}

// Where column k of a lane lies in a panel, in elements.
template <WeightKind kind>
std::int64_t element_index(std::int64_t k, int lane) {
  if constexpr (kind == WeightKind::float32) return k * kLanes + lane;
  return (k / 2 * kLanes + lane) * 2 + k % 2;
}

// Words of a row that go into a panel as they are, four bytes of a lane beside those of the next.
void place_words(const std::byte* words, std::int64_t count, int lane, std::byte* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t word;
    std::memcpy(&word, words + 4 * i, sizeof word);
    std::memcpy(out + (i * kLanes + lane) * 4, &word, sizeof word);
  }
}

template <WeightKind source, WeightKind kind>
void pack(const std::byte* rows, int row_count, std::int64_t columns, std::byte* out) {
  using Element = decltype(narrow<kind>(0.0f));
  constexpr std::int64_t kSourceBytes = source == WeightKind::float32 ? 4 : 2;
  constexpr std::int64_t kWordColumns = 4 / kSourceBytes;
  // Some columns of all rows at a time, so that the panel is written nearly in order.
  constexpr std::int64_t kStretch = 64;
  for (std::int64_t begin = 0; begin < columns; begin += kStretch) {
    const std::int64_t end = columns - begin < kStretch ? columns : begin + kStretch;
    for (int lane = 0; lane < row_count; ++lane) {
      const std::byte* row = rows + lane * columns * kSourceBytes;
      std::int64_t k = begin;
      if constexpr (source == kind) {  // a NaN keeps its bits
        const std::int64_t words = (end - begin) / kWordColumns;
        place_words(row + begin * kSourceBytes, words, lane, out + begin / kWordColumns * kLanes * 4);
        k += words * kWordColumns;
      }
      for (; k < end; ++k) {
        Element value;
        if constexpr (source == kind) {
          std::memcpy(&value, row + k * kSourceBytes, sizeof value);
        } else {
          value = narrow<kind>(widen<source>(row + k * kSourceBytes));
        }
        std::memcpy(out + element_index<kind>(k, lane) * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
      }
    }
  }
}

template <WeightKind source>
void pack_to(WeightKind kind, const std::byte* rows, int row_count, std::int64_t columns, std::byte* out) {
  switch (kind) {
    case WeightKind::float32:
      return pack<source, WeightKind::float32>(rows, row_count, columns, out);
    case WeightKind::bfloat16:
      return pack<source, WeightKind::bfloat16>(rows, row_count, columns, out);
    case WeightKind::float16:
      return pack<source, WeightKind::float16>(rows, row_count, columns, out);
    default:
      return;
  }
}

// The bits of a float that is an E4M3 (core/float_codes.h): exact for such a one. No denormal arises on the way.
std::uint8_t float_to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 31 << 7, magnitude = bits & 0x7fffffff;
  constexpr std::uint32_t kSmallest = std::bit_cast<std::uint32_t>(0x1p-6f);  // that is normal
  if (magnitude < kSmallest)
    return static_cast<std::uint8_t>(sign | static_cast<std::uint32_t>(std::fabs(value) * 512));
  return static_cast<std::uint8_t>(sign | (((magnitude - kSmallest) >> 20) + 8));
}

void store_scale(WeightKind kind, float value, std::byte* scales, int lane) {
  const auto put = [&](auto element) { std::memcpy(scales + lane * sizeof element, &element, sizeof element); };
  switch (kind) {
    case WeightKind::bfloat16:
      return put(float_to_bfloat16(value));
    case WeightKind::float16:
      return put(float_to_float16(value));
    case WeightKind::e4m3:
      return put(float_to_e4m3(value));
    default:
      return put(value);
  }
}

std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}

// What formats of codes take, in bytes: the scales of 16 rows, what stands in front of the columns that share it,
// codes.
std::size_t scale_bytes(const WeightFormat& format) {
  return kLanes * (format.scale_kind == WeightKind::float32 ? 4 : format.scale_kind == WeightKind::e4m3 ? 1 : 2);
}
std::size_t header_bytes(const WeightFormat& format) {
  std::size_t bytes = scale_bytes(format);
  if (format.group == 16 && format.scheme == CodeScheme::offset) bytes *= 4;
  if (format.scheme == CodeScheme::affine) bytes += scale_bytes(format);
  if (format.scheme == CodeScheme::zero_point) bytes += kLanes;
  if (format.scheme == CodeScheme::two_level) {
    if (has_minima(format.kind)) bytes += scale_bytes(format);
    bytes += format.kind == WeightKind::iq4 ? 128 : 256;
  }
  return format.group == kWholeRow ? static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes), 64)) : bytes;
}
std::size_t code_bytes(const WeightFormat& format, std::int64_t columns) {
  return static_cast<std::size_t>(round_up(columns, kStretchColumns)) / kStretchColumns * 64 * code_bits(format.kind);
}
// Columns that share a header.
std::int64_t header_columns(const WeightFormat& format, std::int64_t columns) {
  if (format.scheme == CodeScheme::two_level) return kSuperBlock;
  return format.group == kWholeRow ? columns : format.group == 16 ? 64 : format.group;
}

// Sub-scales and minima of one super-block of one lane (layout: kernels/code_layout.inc.h), into zeros.
void store_sub_scales(WeightKind kind, const std::int8_t* scales, const std::uint8_t* minima, int lane,
                      std::byte* words) {
  const int groups = kSuperBlock / sub_block_columns(kind);
  const auto byte = [&](int i) -> std::byte& { return words[i / 4 * 64 + lane * 4 + i % 4]; };
  for (int j = 0; j < groups; ++j) {
    const auto scale = static_cast<std::byte>(scales[j]);
    if (kind == WeightKind::codes2) {
      byte(j) = scale | static_cast<std::byte>(minima[j] << 4);
    } else if (has_minima(kind)) {
      byte(2 * j) = scale;
      byte(2 * j + 1) = static_cast<std::byte>(minima[j]);
    } else {
      byte(j) = scale;
    }
  }
}

// One plane of a stretch of one lane: of the codes in `words`, four columns each, the bits from `shift` on.
void store_plane(const std::uint32_t (&words)[8], int bits, int shift, std::byte* plane) {
  const std::uint32_t mask = 0x01010101u * ((1u << bits) - 1);
  const int together = 8 / bits;  // words of codes in one of the plane
  for (int i = 0; i < bits; ++i, plane += 64) {
    std::uint32_t word = 0;
    for (int j = 0; j < together; ++j) word |= (words[i * together + j] >> shift & mask) << (j * bits);
    std::memcpy(plane, &word, sizeof word);
  }
}

// `count` codes of one lane, and zeros behind them up to a whole stretch.
template <WeightKind kind>
void store_codes(const std::uint8_t* from, std::int64_t count, int lane, std::byte* codes) {
  constexpr int low = low_plane_bits(kind), high = high_plane_bits(kind);
  codes += lane * 4;
  for (std::int64_t k = 0; k < count; k += kStretchColumns, codes += 64 * (low + high)) {
    std::uint32_t words[8] = {};
    static_assert(sizeof words == kStretchColumns);
    const auto columns = static_cast<std::size_t>(count - k < kStretchColumns ? count - k : kStretchColumns);
    if (columns == sizeof words) {
      std::memcpy(words, from + k, sizeof words);  // of a size that is known
    } else {
      std::memcpy(words, from + k, columns);
    }
    store_plane(words, low, 0, codes);
    if constexpr (high != 0) store_plane(words, high, low, codes + 64 * low);
  }
}

void store_codes(WeightKind kind, const std::uint8_t* from, std::int64_t count, int lane, std::byte* codes) {
  switch (kind) {
    case WeightKind::codes2:
      return store_codes<WeightKind::codes2>(from, count, lane, codes);
    case WeightKind::codes3:
      return store_codes<WeightKind::codes3>(from, count, lane, codes);
    case WeightKind::codes4:
    case WeightKind::e2m1:
    case WeightKind::iq4:
      return store_codes<WeightKind::codes4>(from, count, lane, codes);
    case WeightKind::codes5:
      return store_codes<WeightKind::codes5>(from, count, lane, codes);
    case WeightKind::codes6:
      return store_codes<WeightKind::codes6>(from, count, lane, codes);
    case WeightKind::codes8:
    case WeightKind::e4m3:
      return store_codes<WeightKind::codes8>(from, count, lane, codes);
    default:
      return;
  }
}

}  // namespace

std::int64_t group_count(const WeightFormat& format, std::int64_t columns) {
  return format.group == kWholeRow ? 1 : (columns + format.group - 1) / format.group;
}

std::int64_t scale_count(const WeightFormat& format, std::int64_t columns) {
  return format.scheme == CodeScheme::two_level ? columns / kSuperBlock : group_count(format, columns);
}

std::size_t panel_bytes(const WeightFormat& format, std::int64_t columns) {
  switch (format.kind) {
    case WeightKind::float32:
      return static_cast<std::size_t>(columns) * 64;
    case WeightKind::bfloat16:
    case WeightKind::float16:
      return static_cast<std::size_t>((columns + 1) / 2) * 64;
    default:
      const std::int64_t shared = header_columns(format, columns);
      const std::size_t bytes = (columns + shared - 1) / shared * header_bytes(format) + code_bytes(format, columns);
      return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes), 64));
  }
}

std::size_t kv_block_bytes(KvKind kind, int head_dim) {
  return block_bytes(kind, head_dim);
}

void pack_panel(WeightKind source, std::span<const std::byte> rows, int row_count, std::int64_t columns,
                WeightKind kind, std::byte* out) {
  if (row_count < kLanes || columns % 2 != 0) std::memset(out, 0, panel_bytes({kind}, columns));
  switch (source) {
    case WeightKind::float32:
      return pack_to<WeightKind::float32>(kind, rows.data(), row_count, columns, out);
    case WeightKind::bfloat16:
      return pack_to<WeightKind::bfloat16>(kind, rows.data(), row_count, columns, out);
    case WeightKind::float16:
      return pack_to<WeightKind::float16>(kind, rows.data(), row_count, columns, out);
    default:
      return;
  }
}

void pack_code_panel(const WeightFormat& format, const CodeRows& rows, int row_count, std::int64_t columns,
                     std::byte* out) {
  std::memset(out, 0, panel_bytes(format, columns));
  const bool two_levels = format.scheme == CodeScheme::two_level;
  const std::int64_t groups = group_count(format, columns), scales = scale_count(format, columns);
  const std::int64_t shared = header_columns(format, columns);
  const int header_scales = !two_levels && format.group == 16 ? 4 : 1;
  std::int64_t first_scale = 0, first_group = 0;  // of the columns that share a header
  for (std::int64_t begin = 0; begin < columns; begin += shared) {
    const std::int64_t count = columns - begin < shared ? columns - begin : shared;
    std::byte* second = out + scale_bytes(format);
    std::byte* codes = out + header_bytes(format);
    for (int lane = 0; lane < row_count; ++lane) {
      const std::int64_t scale = lane * scales + first_scale, group = lane * groups + first_group;
      for (int i = 0; i < header_scales && first_scale + i < scales; ++i) {
        store_scale(format.scale_kind, rows.scales[scale + i], out + i * scale_bytes(format), lane);
      }
      if (format.scheme == CodeScheme::affine || (two_levels && has_minima(format.kind))) {
        store_scale(format.scale_kind, rows.biases[scale], second, lane);
      }
      if (format.scheme == CodeScheme::zero_point) second[lane] = static_cast<std::byte>(rows.zeros[group]);
      if (two_levels) {
        std::byte* words = out + scale_bytes(format) * (has_minima(format.kind) ? 2 : 1);
        const std::uint8_t* minima = has_minima(format.kind) ? rows.sub_minima + group : nullptr;
        store_sub_scales(format.kind, rows.sub_scales + group, minima, lane, words);
      }
      store_codes(format.kind, rows.codes + lane * columns + begin, count, lane, codes);
    }
    first_scale += header_scales;
    first_group += two_levels ? kSuperBlock / sub_block_columns(format.kind) : header_scales;
    out = codes + code_bytes(format, count);
  }
}

}  // namespace sparkx::kernels
