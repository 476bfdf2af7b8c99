"""Writes tests/data/golden.safetensors with the real safetensors library: every element type that sparkx reads, a scalar, an
empty tensor, metadata; and tests/data/golden_safetensors.txt, what is in it: name, code, shape, first byte, bytes in hex.
"""

import json
import pathlib

import ml_dtypes
import numpy as np
from safetensors import deserialize
from safetensors.numpy import save

data = pathlib.Path(__file__).resolve().parent.parent / "data"
rng = np.random.default_rng(3)
tensors = {
    "f64": rng.standard_normal((2, 3)), "f32": rng.standard_normal((3, 2)).astype(np.float32),
    "f16": rng.standard_normal(5).astype(np.float16), "bf16": rng.standard_normal((1, 2, 2)).astype(ml_dtypes.bfloat16),
    "i64": rng.integers(-9, 9, (2,)), "i32": rng.integers(-9, 9, (3,)).astype(np.int32),
    "i16": rng.integers(-9, 9, (1, 1)).astype(np.int16), "i8": rng.integers(-9, 9, (3,)).astype(np.int8),
    "u64": rng.integers(0, 9, (1,)).astype(np.uint64), "u32": rng.integers(0, 9, (2, 2)).astype(np.uint32),
    "u16": rng.integers(0, 9, (3,)).astype(np.uint16), "u8": rng.integers(0, 9, (5,)).astype(np.uint8),
    "bool": np.array([True, False, True]), "scalar": np.array(2.5, dtype=np.float32), "empty": np.zeros((0, 4), dtype=np.float32),
    "naïve \"name\"": np.zeros(1, dtype=np.uint8),
}
content = save(tensors, metadata={"format": "pt", "note": "golden é"})
(data / "golden.safetensors").write_bytes(content)

assert {name for name, _ in deserialize(content)} == set(tensors)

length = int.from_bytes(content[:8], "little")
header = json.loads(content[8:8 + length])
metadata = header.pop("__metadata__")
lines = []
for name, entry in sorted(header.items(), key=lambda item: (item[1]["data_offsets"], item[0])):
    begin, end = entry["data_offsets"]
    lines.append("\t".join([json.dumps(name, ensure_ascii=False), entry["dtype"], json.dumps(entry["shape"]), str(8 + length + begin),
                            tensors[name].tobytes().hex() or "-"]))
(data / "golden_safetensors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
print(metadata, len(lines), "tensors")
