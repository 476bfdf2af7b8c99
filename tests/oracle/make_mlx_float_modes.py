"""Writes tests/data/mlx_float_modes.json: what MLX's mxfp4, mxfp8 and nvfp4 make of rows that are hard for them.

Arrays are strings of hexadecimal bit patterns: eight digits a float32, four a bfloat16 or float16, two a byte.

usage: python tests/oracle/make_mlx_float_modes.py      (needs mlx, numpy, ml_dtypes)
"""

import json
import pathlib

import mlx.core as mx
import numpy as np

from make_mlx_quantization import KINDS, from_mlx, hexadecimal

f32 = np.float32
COLUMNS = 64
MODES = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}


def rows():
    random = np.random.default_rng(11)
    normal = lambda scale=1.0: random.standard_normal(COLUMNS) * scale
    magnitudes = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    middles = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6])
    signs = np.where(np.arange(COLUMNS) % 2, 1, -1)
    result = [normal(0.02), normal(), normal(1e4), normal(1e-4), normal(1e-6), np.zeros(COLUMNS), -np.zeros(COLUMNS)]
    # Values that a code has, and those halfway between; the largest decides the scale.
    result += [np.resize(magnitudes, COLUMNS) * signs, np.resize(middles, COLUMNS) * signs, np.resize(np.nextafter(f32(middles), f32(9)), COLUMNS)]
    # Largest values at, just below and just above a power of two times what a code can hold.
    for largest in (6.0, 448.0):
        for scale in (1.0, 2.0**-7, 2.0**5):
            for step in (-1, 0, 1):
                row = normal(scale * 0.1)
                row[::16] = f32(largest * scale) if step == 0 else np.nextafter(f32(largest * scale), f32(step * 1e9))
                result.append(row)
    # E4M3: denormals, ties, the largest and beyond.
    result.append(np.resize(np.array([2.0**-9, 2.0**-10, 1.5 * 2.0**-9, 2.5 * 2.0**-9, 2.0**-6, 0.9375 * 2.0**-6, 432, 448]), COLUMNS) * signs)
    result.append(np.resize(np.array([1.0625, 1.1875, 17, 19, 200, 232, 440, 448]), COLUMNS))
    # Scales of nvfp4 at the ends of what it has.
    result += [np.resize([6 * 448.0, 1.0], COLUMNS), np.resize([6 * 500.0, -7.0], COLUMNS), np.resize([6 * 2.0**-9, 1e-3], COLUMNS),
               np.resize([6 * 2.0**-10, 1e-4], COLUMNS), np.resize([6 * 2.0**-11, 1e-5], COLUMNS), np.resize([1e-30, -1e-31], COLUMNS)]
    # Every magnitude: float16 has few bits left for the smallest.
    result += [normal(10.0**-exponent) for exponent in np.arange(0, 8, 0.5)]
    return np.array(result, f32)


def main():
    mx.set_default_device(mx.cpu)
    document = {"mlx": mx.__version__, "columns": COLUMNS, "cases": []}
    for name, (mlx_kind, numpy_kind, digits) in KINDS.items():
        w = mx.array(rows()).astype(mlx_kind)
        if name == "float16":  # what is beyond it is of no interest
            w = mx.clip(w, -65504, 65504)
        case = {"kind": name, "rows": w.shape[0], "weights": hexadecimal(from_mlx(w, numpy_kind), digits), "quantized": []}
        for mode, (group, bits) in MODES.items():
            packed, scales = mx.quantize(w, group_size=group, bits=bits, mode=mode)
            case["quantized"].append({"mode": mode, "group": group, "packed": hexadecimal(np.array(packed).view(np.uint8), 2),
                                      "scales": hexadecimal(np.array(scales).view(np.uint8), 2)})
        document["cases"].append(case)
    path = pathlib.Path(__file__).parent.parent / "data" / "mlx_float_modes.json"
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
