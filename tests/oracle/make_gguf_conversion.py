"""Writes tests/data/gguf_conversion.json: the metadata that llama.cpp's converter gives the built-in model, and the type
that llama-quantize gives every matrix of some shapes.

usage: python tests/oracle/make_gguf_conversion.py LLAMA_CPP LLAMA_QUANTIZE
    LLAMA_CPP: its sources; the converter runs from there               (needs its requirements: torch, transformers, …)
    LLAMA_QUANTIZE: the program built from them
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
RECIPES = ["Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S", "Q4_1", "Q4_0"]
SHAPES = [  # layers, hidden, attention width, intermediate, tied
    (28, 256, 512, 512, True), (36, 512, 256, 256, False), (6, 192, 256, 512, True), (3, 80, 64, 96, False), (1, 256, 256, 256, True)]
MODULES = ["attn_qkv", "attn_gate", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


def metadata(sources, folder):
    """The converter knows tokenizers by a hash of what they make of a text; ours splits as Spark-X2.5's does."""
    sys.path[:0] = [str(sources), str(sources / "gguf-py")]
    import conversion.base

    conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "spark2_5"
    import convert_hf_to_gguf
    import gguf

    out = folder / "mini.gguf"
    sys.argv = ["convert", str(ROOT / "models" / "mini"), "--outfile", str(out), "--outtype", "bf16"]
    convert_hf_to_gguf.main()
    reader = gguf.GGUFReader(out)
    entries = []
    for key, field in reader.fields.items():
        if not key.startswith("GGUF."):
            entries.append({"key": key, "type": [t.name for t in field.types], "value": field.contents()})
    tensors = [{"name": t.name, "type": t.tensor_type.name, "shape": [int(n) for n in reversed(t.shape)]} for t in reader.tensors]
    return {"entries": entries, "tensors": tensors}


def types(quantize, folder, shape):
    import gguf
    import numpy as np

    layers, hidden, attention, intermediate, tied = shape
    path = folder / "shape.gguf"
    writer = gguf.GGUFWriter(path, "spark2_5")
    for name, value in [("context_length", 1024), ("embedding_length", hidden), ("block_count", layers), ("feed_forward_length", intermediate),
                        ("attention.head_count", 2), ("attention.head_count_kv", 1), ("attention.key_length", attention // 2),
                        ("attention.value_length", attention // 2), ("attention.sliding_window", 64), ("vocab_size", 64)]:
        writer.add_uint32("spark2_5." + name, value)
    writer.add_float32("spark2_5.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_array("spark2_5.attention.sliding_window_pattern", [False] * layers)
    matrices = {"token_embd": (64, hidden)}
    for layer in range(layers):
        sizes = [(2 * attention, hidden), (2, hidden), (hidden, attention), (intermediate, hidden), (intermediate, hidden), (hidden, intermediate)]
        matrices |= {f"blk.{layer}.{module}": size for module, size in zip(MODULES, sizes)}
    if not tied:
        matrices["output"] = (64, hidden)
    for name, size in matrices.items():
        writer.add_tensor(name + ".weight", np.zeros(size, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    result = {}
    for recipe in RECIPES:
        log = subprocess.run([quantize, "--dry-run", path, folder / "out.gguf", recipe], check=True, capture_output=True, text=True)
        found = {}
        for line in (log.stdout + log.stderr).splitlines():
            if match := re.search(r"\] +(\S+)\.weight +- \[.*type = +(\S+),.*?(?:\((\S+)\))?$", line):
                found[match[1]] = (match[3] or match[2]).upper()
        result[recipe] = " ".join(found[name] for name in matrices)
    return {"layers": layers, "hidden": hidden, "attention": attention, "intermediate": intermediate, "tied": tied, "types": result}


def main():
    sources, quantize = pathlib.Path(sys.argv[1]), sys.argv[2]
    os.environ["LD_LIBRARY_PATH"] = os.path.dirname(quantize)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        document = metadata(sources, folder)
        document["shapes"] = [types(quantize, folder, shape) for shape in SHAPES]
    path = ROOT / "tests" / "data" / "gguf_conversion.json"
    path.write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace('{"key"', '\n{"key"').replace('{"layers"', '\n{"layers"') + "\n")
    print(path, path.stat().st_size)


if __name__ == "__main__":
    main()
