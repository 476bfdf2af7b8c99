"""Writes tests/data/gguf_blocks.json: what gguf-py makes of blocks of every quantized type.

Bytes of the blocks and, as bit patterns of float32, the weights, all in hexadecimal. The bytes are random, so every bit
of a block matters; only float16 numbers are replaced by finite ones.

usage: python tests/oracle/make_gguf_blocks.py      (needs gguf, numpy)
"""

import json
import pathlib

import gguf
import numpy as np

ROWS = 2
# The type, and where its blocks have float16 numbers.
TYPES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108],
         "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}


def main():
    random = np.random.default_rng(5)
    document = {"gguf": "0.19.0", "types": []}
    for name, floats in TYPES.items():
        kind = gguf.GGMLQuantizationType[name]
        columns, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (ROWS, 2, size), np.uint8)
        for offset in floats:
            # Of both signs; the last block's are denormal.
            values = (random.standard_normal((ROWS, 2)) * 0.02).astype(np.float16)
            values[-1, -1] = random.integers(1, 1023) * 2.0**-24
            blocks[:, :, offset : offset + 2] = values[..., None].view(np.uint8)
        data = blocks.reshape(ROWS, -1)
        weights = gguf.quants.dequantize(data, kind).astype(np.float32)
        assert weights.shape == (ROWS, 2 * columns) and np.isfinite(weights).all()
        document["types"].append({"name": name, "number": int(kind), "rows": ROWS, "columns": 2 * columns,
                                  "blocks": data.tobytes().hex(),
                                  "weights": "".join(f"{int(w):08x}" for w in weights.view(np.uint32).reshape(-1))})
    path = pathlib.Path(__file__).parent.parent / "data" / "gguf_blocks.json"
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
