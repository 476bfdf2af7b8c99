"""Writes tests/data/half_golden.txt: float32 bits, float16 bits (numpy), bfloat16 bits (ml_dtypes), in hexadecimal.

Values around every kind of rounding border, and random ones. NaNs are left out: payloads are nobody's promise.
"""

import pathlib
import random

import ml_dtypes
import numpy as np

random.seed(7)
bits = [0x00000000, 0x80000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x3F800000]
for exponent in range(256):
    for fraction in (0, 1, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x7FFF, 0x8000, 0x8001, 0x17FFF, 0x18000, 0x7FEFFF, 0x7FF000,
                     0x7F7FFF, 0x7F8000, 0x7FFFFF):
        bits.append(exponent << 23 | fraction)
bits += [random.getrandbits(32) for _ in range(1000)]
bits += [random.getrandbits(1) << 31 | random.randrange(0x33000000 - 0x800000, 0x47900000) for _ in range(2000)]  # float16's range
values = np.array(sorted(set(bits)), dtype=np.uint32)
floats = values.view(np.float32)
keep = ~np.isnan(floats)
values, floats = values[keep], floats[keep]
with np.errstate(over="ignore"):
    half = floats.astype(np.float16).view(np.uint16)
    brain = floats.astype(ml_dtypes.bfloat16).view(np.uint16)
out = pathlib.Path(__file__).resolve().parent.parent / "data" / "half_golden.txt"
out.write_text("".join(f"{v:08x} {h:04x} {b:04x}\n" for v, h, b in zip(values, half, brain)))
print(len(values), "lines")
