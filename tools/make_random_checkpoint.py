#!/usr/bin/env python3
"""Writes a spark2_5 checkpoint with random bfloat16 weights in the shape of a published model, for measuring memory and speed.

    python tools/make_random_checkpoint.py OUT [--shape 1.7b|4b] [--seed N]

OUT gets config.json and model.safetensors (3.4 GB or 8.2 GB). Writes as it goes: memory stays below 200 MB. Needs numpy. The
text that such a model writes means nothing, but its activations stay finite and of ordinary size.
"""
import argparse
import json
import math
import os
import struct

import numpy as np

SHAPES = {
    "1.7b": dict(num_hidden_layers=28, hidden_size=2048, intermediate_size=6656, num_attention_heads=8, num_key_value_heads=2),
    "4b": dict(num_hidden_layers=36, hidden_size=2560, intermediate_size=10240, num_attention_heads=16, num_key_value_heads=4),
}


def make_config(shape):
    layers = SHAPES[shape]["num_hidden_layers"]
    return dict(
        architectures=["Spark2_5ForCausalLM"], model_type="spark2_5", hidden_act="gelu", gate_attn_act_mode="sigmoid",
        headwise_attn_output_gate=True, attention_bias=False, mlp_bias=False, head_dim=256, vocab_size=131072,
        max_position_embeddings=1048576, sliding_window=512, rms_norm_eps=1e-6, tie_word_embeddings=True, torch_dtype="bfloat16",
        bos_token_id=0, eos_token_id=1, pad_token_id=2, **SHAPES[shape],
        layer_types=["full_attention" if i % 4 == 3 else "sliding_attention" for i in range(layers)],
        rope_parameters=dict(sliding_attention=dict(rope_theta=10000.0, partial_rotary_factor=1.0, rope_type="default"),
                             full_attention=dict(rope_theta=5000000.0, partial_rotary_factor=0.25, rope_type="default")))


def tensors(c):
    """(name, shape, standard deviation; None for the weights of a norm)."""
    hidden, inner, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
    yield "model.embedding.weight", (c["vocab_size"], hidden), 0.02
    for n in range(c["num_hidden_layers"]):
        layer = f"model.layers.{n}."
        yield layer + "input_layernorm.weight", (hidden,), None
        yield layer + "self_attn.q_k_v_proj.weight", ((heads + 2 * kv_heads) * d, hidden), 1 / math.sqrt(hidden)
        yield layer + "self_attn.g_proj.weight", (heads, hidden), 1 / math.sqrt(hidden)
        yield layer + "self_attn.out_proj.weight", (hidden, heads * d), 0.3 / math.sqrt(heads * d)
        yield layer + "post_attention_layernorm.weight", (hidden,), None
        yield layer + "mlp.gate_proj.weight", (inner, hidden), 1 / math.sqrt(hidden)
        yield layer + "mlp.up_proj.weight", (inner, hidden), 1 / math.sqrt(hidden)
        yield layer + "mlp.down_proj.weight", (hidden, inner), 0.3 / math.sqrt(inner)
    yield "model.norm.weight", (hidden,), None


def bfloat16(values):
    bits = values.view(np.uint32)
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype("<u2")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--shape", choices=SHAPES, default="1.7b")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    config = make_config(arguments.shape)
    os.makedirs(arguments.out, exist_ok=True)
    with open(os.path.join(arguments.out, "config.json"), "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    header, offset = {}, 0
    for name, shape, _ in tensors(config):
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.default_rng(arguments.seed)
    with open(os.path.join(arguments.out, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, shape, deviation in tensors(config):
            left = math.prod(shape)
            while left:
                count = min(left, 1 << 22)
                if deviation is None:
                    values = np.ones(count, np.float32)
                else:
                    values = rng.standard_normal(count, np.float32) * np.float32(deviation)
                f.write(bfloat16(values).tobytes())
                left -= count
    print(f"{arguments.out}: {arguments.shape}, {offset} bytes of weights")


if __name__ == "__main__":
    main()
