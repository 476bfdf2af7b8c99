"""Writes tests/data/mlx_float_quantization.json: what MLX's own modes of 4- and 8-bit floats make of rows that are hard
for them, and what it decodes those to.

Arrays are strings of hexadecimal bit patterns: eight digits a float32, four a bfloat16 or float16, two a code or scale.

usage: python tests/oracle/make_mlx_float_quantization.py      (needs mlx, numpy, ml_dtypes)
"""

import json
import pathlib

import mlx.core as mx
import numpy as np
from make_mlx_quantization import KINDS, from_mlx, hexadecimal

COLUMNS = 64
MODES = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}


def rows(numpy_kind):
    random = np.random.default_rng(11)
    normal = lambda scale=1.0: random.standard_normal(COLUMNS) * scale
    e2m1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    halfway = np.concatenate([(e2m1[1:] + e2m1[:-1]) / 2, [6.0]])
    def ties(scale):  # between two values of E2M1, with the largest in each group of 16
        return scale * np.tile(np.concatenate([halfway, -halfway]), COLUMNS // 16)
    def beside(value, steps):  # the numbers next to one
        integers = {2: np.int16, 4: np.int32}[np.dtype(numpy_kind).itemsize]
        bits = np.full(COLUMNS, value).astype(numpy_kind).view(integers)
        return (bits + np.resize(steps, COLUMNS).astype(integers)).view(numpy_kind).astype(np.float32)
    result = [normal(0.02), normal(), normal(1e-3), normal(100), ties(1), ties(0.25), np.zeros(COLUMNS), -np.zeros(COLUMNS),
              np.full(COLUMNS, 0.37), np.linspace(-1, 1, COLUMNS), np.linspace(-448, 448, COLUMNS), normal(1e-5), normal(3e3),
              # The largest beside a power of two times that of the codes, where the scale changes.
              beside(6, [0, -1, -2]), beside(6, [1, 0]), beside(448, [0, -1]), beside(448, [1, 0]), beside(0.75, [1, 0]),
              # E4M3 codes on the border of two, of which the even one is nearest; denormal ones.
              np.concatenate([[448], 2.0**-6 * (8 + np.arange(COLUMNS - 1)) / 16]),
              np.concatenate([[448], -(2.0**-10) * np.arange(COLUMNS - 1)]),
              # Scales of nvfp4 that are denormal, that round to nothing, that are too large.
              np.full(COLUMNS, 6 * 2.0**-9), np.full(COLUMNS, 6 * 2.0**-10), np.full(COLUMNS, 6 * 2.0**-10 * 1.01),
              np.full(COLUMNS, 6 * 464.0), np.full(COLUMNS, 3e4)]
    return np.array(result, np.float32)


def main():
    mx.set_default_device(mx.cpu)
    document = {"mlx": mx.__version__, "columns": COLUMNS, "cases": []}
    for name, (mlx_kind, numpy_kind, digits) in KINDS.items():
        w = mx.array(rows(numpy_kind)).astype(mlx_kind)
        case = {"kind": name, "rows": w.shape[0], "weights": hexadecimal(from_mlx(w, numpy_kind), digits), "quantized": []}
        for mode, (bits, group) in MODES.items():
            packed, scales = mx.quantize(w, group_size=group, bits=bits, mode=mode)
            weights = mx.dequantize(packed, scales, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
            packed = np.array(packed).view(np.uint8)
            codes = packed if bits == 8 else np.stack([packed & 15, packed >> 4], -1).reshape(w.shape)
            case["quantized"].append({"mode": mode, "codes": hexadecimal(codes, 2), "scales": hexadecimal(np.array(scales), 2),
                                      "decoded": hexadecimal(np.array(weights), 8)})
        document["cases"].append(case)
    path = pathlib.Path(__file__).parent.parent / "data" / "mlx_float_quantization.json"
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
