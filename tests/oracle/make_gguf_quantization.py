"""Writes tests/data/gguf_quantization.json: what gguf-py makes of rows that are hard for it, byte for byte, and how far
from the weights llama.cpp's K types are.

Arrays are strings of hexadecimal bytes as they stand in memory. Errors are sums of squares, one a row.

usage: python tests/oracle/make_gguf_quantization.py LIBGGML_BASE
    LIBGGML_BASE: llama.cpp's libggml-base.so, built from source            (needs numpy, gguf)
"""

import ctypes
import json
import pathlib
import sys

import gguf
import numpy as np

COLUMNS = 512
SAME = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
NO_WORSE = ["Q4_K", "Q5_K", "Q6_K"]


def rows():
    random = np.random.default_rng(11)
    normal = lambda scale=1.0, offset=0.0: random.standard_normal(COLUMNS) * scale + offset
    signs = np.where(random.integers(0, 2, COLUMNS), 1, -1)
    outliers = normal(0.01)
    outliers[[3, 70, 300]] = -5, 4, 2
    blocks = normal() * np.repeat(np.exp(random.standard_normal(COLUMNS // 32)), 32)
    return np.array([
        normal(0.02), normal(), abs(normal()), -abs(normal()), normal(0.01, 1), normal(1e-3, -3), random.laplace(size=COLUMNS),
        random.standard_t(3, COLUMNS), outliers, blocks, np.where(random.random(COLUMNS) < 0.05, normal(), 0), signs * 1.0,
        normal(1e-3), normal(100), np.linspace(-1, 1, COLUMNS), np.tile(np.arange(32) / 2, COLUMNS // 32),
        np.zeros(COLUMNS), -np.zeros(COLUMNS), np.full(COLUMNS, -2.5), normal(1e-9),
    ], np.float32)


def hexadecimal(array):
    return np.ascontiguousarray(array).tobytes().hex()


def from_llama(library, kind, values):
    block, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.empty((values.shape[0], values.shape[1] // block * size), np.uint8)
    library.ggml_quantize_chunk(ctypes.c_int(kind), values.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                                ctypes.c_int64(0), ctypes.c_int64(values.shape[0]), ctypes.c_int64(values.shape[1]), None)
    return gguf.quants.dequantize(out, kind)


def main():
    values = rows()
    library = ctypes.CDLL(sys.argv[1])
    document = {"columns": COLUMNS, "rows": values.shape[0], "weights": hexadecimal(values), "same": {}, "no_worse": {}}
    for name in SAME:
        document["same"][name] = hexadecimal(gguf.quants.quantize(values, gguf.GGMLQuantizationType[name]))
    for name in NO_WORSE:
        error = from_llama(library, gguf.GGMLQuantizationType[name], values).astype(np.float64) - values
        document["no_worse"][name] = (error**2).sum(1).tolist()
    path = pathlib.Path(__file__).parents[1] / "data" / "gguf_quantization.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
