#!/usr/bin/env python3
"""Compares the GGUF files that `sparkx convert` makes of the built-in model with gguf-py's, and runs both with llama.cpp.

usage: check_gguf.py
gguf-py reads every file; the bytes of all types that gguf-py can quantize to are compared with its own. Where $LLAMA_SERVER
names llama.cpp's server, it loads our file and one with the same weights written by gguf-py, and the logarithms of the
probabilities of all tokens must be equal. $SPARKX names the binary.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "mini"
RECIPES = ["F32", "F16", "BF16", "Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q4_K_M", "Q4_K_S"]
K_TYPES = {"Q4_K": 0.1, "Q5_K": 0.05, "Q6_K": 0.025}  # and how far from the weights they may be, relative to them
PROMPT = [0, 6, 40, 200, 333, 512, 700, 901]
MODULES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_qkv": "self_attn.q_k_v_proj",
           "attn_gate": "self_attn.g_proj", "attn_output": "self_attn.out_proj", "ffn_gate": "mlp.gate_proj",
           "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def source_weights():
    """The tensors of the checkpoint, bfloat16, as float32."""
    data = (MODEL / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    weights = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            bits = np.frombuffer(data[8 + size + begin:8 + size + end], "<u2").astype(np.uint32) << 16
            weights[name] = bits.view(np.float32).reshape(entry["shape"])
    return weights


def checkpoint_name(name):
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{MODULES[parts[2]]}.weight"
    return {"token_embd": "model.embedding", "output_norm": "model.norm"}[parts[0]] + ".weight"


def check_weights(reader, weights):
    problems = []
    if {checkpoint_name(t.name) for t in reader.tensors} != set(weights):
        problems.append("other tensors")
    for tensor in reader.tensors:
        source = weights[checkpoint_name(tensor.name)]
        kind = tensor.tensor_type
        if kind.name in K_TYPES:
            error = gguf.quants.dequantize(tensor.data, kind).astype(np.float64).reshape(source.shape) - source
            relative = np.sqrt((error**2).sum() / (source.astype(np.float64)**2).sum())
            if relative > K_TYPES[kind.name]:
                problems.append(f"{tensor.name} ({kind.name}) is off by {relative:.3f}")
        elif tensor.data.tobytes() != gguf.quants.quantize(source, kind).tobytes():
            problems.append(f"{tensor.name} ({kind.name}) has other bytes")
    return problems


def write_with_gguf_py(reader, weights, path):
    """The same entries and weights; the blocks are gguf-py's own where it can make them."""
    writer = gguf.GGUFWriter(path, "spark2_5")
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        kind = field.types[0]
        writer.add_key_value(key, field.contents(), kind, sub_type=field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        kind = tensor.tensor_type
        data = tensor.data if kind.name in K_TYPES else gguf.quants.quantize(weights[checkpoint_name(tensor.name)], kind)
        writer.add_tensor(tensor.name, np.array(data), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def request(port, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", data), timeout=60) as answer:
        return json.load(answer)


def llama_probabilities(server, file):
    """What llama.cpp expects after the prompt: token id -> logarithm of its probability."""
    port = free_port()
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(server))
    process = subprocess.Popen([server, "-m", file, "--port", str(port), "-c", "256", "-t", "1", "-np", "1", "--no-warmup"], env=environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            if process.poll() is not None:
                raise RuntimeError("llama.cpp does not load it: " + process.stderr.read()[-500:])
            try:
                request(port, "/health")
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        answer = request(port, "/completion", {"prompt": PROMPT, "n_predict": 1, "n_probs": 1024, "temperature": 0, "cache_prompt": False})
        return {entry["id"]: entry["logprob"] for entry in answer["completion_probabilities"][0]["top_logprobs"]}
    finally:
        process.kill()
        process.communicate()


def main():
    sparkx, server = os.environ["SPARKX"], os.environ.get("LLAMA_SERVER")
    weights = source_weights()
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for recipe in RECIPES:
            ours, theirs = os.path.join(folder, recipe + ".gguf"), os.path.join(folder, recipe + "-py.gguf")
            subprocess.run([sparkx, "convert", "-o", ours, "--quantize", recipe], check=True, stdout=subprocess.DEVNULL)
            reader = gguf.GGUFReader(ours)
            problems = check_weights(reader, weights)
            print(f"{recipe}: {'; '.join(problems) or 'weights are right'}")
            failed, passed = failed + bool(problems), passed + (not problems)
            if not server:
                skipped += 1
                continue
            write_with_gguf_py(reader, weights, theirs)
            a, b = llama_probabilities(server, ours), llama_probabilities(server, theirs)
            same = len(a) == 1024 and a == b
            print(f"{recipe}: llama.cpp {'gives the same' if same else 'gives OTHER'} probabilities for {len(a)} tokens")
            failed, passed = failed + (not same), passed + same
    if not server:
        print("llama.cpp is left out: $LLAMA_SERVER does not name its server")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
