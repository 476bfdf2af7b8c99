"""Writes tests/data/mlx_quantization.json: what MLX's own affine quantization makes of rows that are hard for it.

Arrays are strings of hexadecimal bit patterns: eight digits a float32, four a bfloat16 or float16, two a code.

usage: python tests/oracle/make_mlx_quantization.py      (needs mlx, numpy, ml_dtypes)
"""

import json
import pathlib

import ml_dtypes
import mlx.core as mx
import numpy as np

f32 = np.float32
COLUMNS = 128
KINDS = {"float32": (mx.float32, f32, 8), "bfloat16": (mx.bfloat16, ml_dtypes.bfloat16, 4), "float16": (mx.float16, np.float16, 4)}


def rows():
    random = np.random.default_rng(7)
    normal = lambda scale=1.0, offset=0.0: random.standard_normal(COLUMNS) * scale + offset
    signs = np.where(random.integers(0, 2, COLUMNS), 1, -1)
    outlier = normal(0.01)
    outlier[[3, 70]] = -5, 4
    ties = np.tile(np.arange(32) / 2, 4)  # codes fall halfway
    result = [
        normal(0.02), normal(), abs(normal()), -abs(normal()), normal(0.01, 10), normal(1e-3, -3), normal(1e-9), outlier, ties,
        -ties, np.zeros(COLUMNS), -np.zeros(COLUMNS), np.zeros(COLUMNS) * signs, np.full(COLUMNS, 0.37), np.full(COLUMNS, -2.5),
        signs * 1.0, normal(1e4), normal(1e-4), np.tile([0.0, 1e-7 * 7], 64), np.linspace(-1, 1, COLUMNS),
    ]
    single = np.zeros(COLUMNS)
    single[64] = -1e-5
    return np.array(result + [single], f32)


def hexadecimal(values, digits):
    kind = {8: np.uint32, 4: np.uint16, 2: np.uint8}[digits]
    return "".join(f"{int(v):0{digits}x}" for v in np.ascontiguousarray(values).reshape(-1).view(kind))


def from_mlx(array, numpy_kind):
    """The bits of an MLX array; NumPy knows no bfloat16."""
    return np.array(array.view(mx.uint32 if np.dtype(numpy_kind).itemsize == 4 else mx.uint16)).view(numpy_kind)


def unpacked(row_bytes, bits):
    """Codes of a little-endian stream of bits."""
    stream = np.unpackbits(row_bytes.reshape(-1), bitorder="little").reshape(-1, bits)
    return (stream << np.arange(bits)).sum(-1).astype(np.uint8)


def main():
    mx.set_default_device(mx.cpu)
    document = {"mlx": mx.__version__, "columns": COLUMNS, "cases": []}
    for name, (mlx_kind, numpy_kind, digits) in KINDS.items():
        w = mx.array(rows()).astype(mlx_kind)
        case = {"kind": name, "rows": w.shape[0], "weights": hexadecimal(from_mlx(w, numpy_kind), digits), "quantized": []}
        for bits in (2, 3, 4, 5, 6, 8):
            for group in (32, 64, 128) if bits in (4, 8) else (64,):
                packed, scales, biases = mx.quantize(w, group_size=group, bits=bits)
                codes = unpacked(np.array(packed).view(np.uint8), bits).reshape(w.shape)
                case["quantized"].append({"bits": bits, "group": group, "codes": hexadecimal(codes, 2),
                                          "scales": hexadecimal(from_mlx(scales, numpy_kind), digits),
                                          "biases": hexadecimal(from_mlx(biases, numpy_kind), digits)})
        document["cases"].append(case)
    path = pathlib.Path(__file__).parent.parent / "data" / "mlx_quantization.json"
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
