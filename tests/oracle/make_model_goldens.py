"""Makes tests/data/model: two small random checkpoints with the logits that docs/model.md gives for them, and rotary angles.

    python tests/oracle/make_model_goldens.py [tests/data/model]

A reference of its own: float64, one token after the other against a growing list of keys and values, written from the equations and
not from any code of this project. Each folder gets config.json, model.safetensors and golden.safetensors:

    tokens      int32 [T]
    logits      float32 [T, vocab_size]
    far_token   int32 [1]            one token at position 1 048 575 whose cache holds the made-up keys and values of
    far_logits  float32 [vocab_size] far_key and far_value below instead of a million tokens' own

rope.txt: cos and sin of angles from mpmath. Needs numpy and mpmath.
"""
import json
import math
import os
import struct
import sys

import mpmath
import numpy as np

FAR = 1048575
SLIDING, FULL = "sliding_attention", "full_attention"


def to_bfloat16(x):
    """float32 -> uint16, nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def write_safetensors(path, tensors):
    """tensors: name -> (dtype name, array)."""
    header, offset = {}, 0
    for name, (dtype, array) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, array in tensors.values():
            f.write(np.ascontiguousarray(array).tobytes())


def make_weights(c, rng):
    """Large enough that attention is sharp and gates differ: a wrong mask, angle or gate shows in the first digits."""
    heads, kv_heads, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    hidden, inner, vocab = c["hidden_size"], c["intermediate_size"], c["vocab_size"]

    def matrix(rows, columns, scale):
        return rng.normal(0, scale / math.sqrt(columns), (rows, columns))

    def norm():
        return rng.uniform(0.5, 1.5, hidden)

    w = {"model.embedding.weight": rng.normal(0, 0.5, (vocab, hidden))}
    for n in range(c["num_hidden_layers"]):
        layer = f"model.layers.{n}."
        w[layer + "input_layernorm.weight"] = norm()
        w[layer + "self_attn.q_k_v_proj.weight"] = matrix((heads + 2 * kv_heads) * d, hidden, 1.6)
        w[layer + "self_attn.g_proj.weight"] = matrix(heads, hidden, 2.0)
        w[layer + "self_attn.out_proj.weight"] = matrix(hidden, heads * d, 1.2)
        w[layer + "post_attention_layernorm.weight"] = norm()
        w[layer + "mlp.gate_proj.weight"] = matrix(inner, hidden, 1.6)
        w[layer + "mlp.up_proj.weight"] = matrix(inner, hidden, 1.0)
        w[layer + "mlp.down_proj.weight"] = matrix(hidden, inner, 1.0)
        for name, flag in (("self_attn.q_k_v_proj", "attention_bias"), ("self_attn.g_proj", "attention_bias"),
                           ("self_attn.out_proj", "attention_bias"), ("mlp.gate_proj", "mlp_bias"),
                           ("mlp.up_proj", "mlp_bias"), ("mlp.down_proj", "mlp_bias")):
            if c[flag]:
                w[layer + name + ".bias"] = rng.normal(0, 0.4, w[layer + name + ".weight"].shape[0])
    w["model.norm.weight"] = norm()
    if not c["tie_word_embeddings"]:
        w["lm_head.weight"] = matrix(vocab, hidden, 2.0)
    return w


class Reference:
    """One sequence. keys(layer, kv_head) and values are lists that grow with every token."""

    def __init__(self, config, weights):
        self.c, self.w = config, {k: np.asarray(v, np.float64) for k, v in weights.items()}

    def project(self, path, x):
        y = self.w[path + ".weight"] @ x
        return y + self.w[path + ".bias"] if path + ".bias" in self.w else y

    def norm(self, x, name):
        return x * self.w[name] / math.sqrt(np.dot(x, x) / len(x) + self.c["rms_norm_eps"])

    def rotate(self, head, position, layer_type):
        parameters = self.c["rope_parameters"][layer_type]
        dims = int(len(head) * parameters["partial_rotary_factor"])
        out = head.copy()
        for i in range(dims // 2):
            # Exact angles: at 2^20 even a double's exponentiation would cost digits.
            angle = mpmath.mpf(position) * mpmath.mpf(parameters["rope_theta"]) ** (mpmath.mpf(-2 * i) / dims)
            cos, sin = float(mpmath.cos(angle)), float(mpmath.sin(angle))
            a, b = head[i], head[i + dims // 2]
            out[i], out[i + dims // 2] = a * cos - b * sin, b * cos + a * sin
        return out

    def token(self, token, position, cache):
        """cache(layer, kv_head, key, value) -> (keys, values, weights) that the token sees, its own among them."""
        c = self.c
        d, heads, kv_heads = c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
        x = self.w["model.embedding.weight"][token]
        for n, layer_type in enumerate(c["layer_types"]):
            layer = f"model.layers.{n}."
            normed = self.norm(x, layer + "input_layernorm.weight")
            q, k, v = np.split(self.project(layer + "self_attn.q_k_v_proj", normed), [heads * d, (heads + kv_heads) * d])
            seen = [cache(n, h, self.rotate(k[h * d:(h + 1) * d], position, layer_type), v[h * d:(h + 1) * d])
                    for h in range(kv_heads)]
            gates = self.project(layer + "self_attn.g_proj", normed)
            parts = []
            for h in range(heads):
                keys, values, counts = seen[h // (heads // kv_heads)]
                scores = keys @ self.rotate(q[h * d:(h + 1) * d], position, layer_type) / math.sqrt(d)
                p = counts * np.exp(scores - scores.max())
                parts.append(p @ values / p.sum() / (1 + math.exp(-gates[h])))
            x = x + self.project(layer + "self_attn.out_proj", np.concatenate(parts))
            normed = self.norm(x, layer + "post_attention_layernorm.weight")
            gate = self.project(layer + "mlp.gate_proj", normed)
            gelu = np.array([0.5 * z * (1 + math.erf(z / math.sqrt(2))) for z in gate])
            x = x + self.project(layer + "mlp.down_proj", gelu * self.project(layer + "mlp.up_proj", normed))
        head = "model.embedding" if c["tie_word_embeddings"] else "lm_head"
        return self.w[head + ".weight"] @ self.norm(x, "model.norm.weight")


def run(reference, tokens):
    keys, values = {}, {}
    window = reference.c["sliding_window"]

    def cache(layer, head, key, value):
        keys.setdefault((layer, head), []).append(key)
        values.setdefault((layer, head), []).append(value)
        first = 0
        if reference.c["layer_types"][layer] == SLIDING:
            first = max(0, len(keys[layer, head]) - window)
        k, v = np.array(keys[layer, head][first:]), np.array(values[layer, head][first:])
        return k, v, np.ones(len(k))

    return np.array([reference.token(t, p, cache) for p, t in enumerate(tokens)])


def far_key(layer, head, slot, channel):
    return ((layer * 5 + head * 3 + slot * 7 + channel * 11) % 17 - 8) / 8


def far_value(layer, head, slot, channel):
    return ((layer * 3 + head * 7 + slot * 5 + channel * 13) % 19 - 9) / 8


def run_far(reference, token):
    """The cache of position p < FAR holds far_key and far_value of slot p mod 64."""
    d, window = reference.c["head_dim"], reference.c["sliding_window"]

    def cache(layer, head, key, value):
        first = FAR - window + 1 if reference.c["layer_types"][layer] == SLIDING else 0
        slots = np.arange(64)
        counts = np.array([len(range(first + (s - first) % 64, FAR, 64)) for s in slots], np.float64)
        k = np.array([[far_key(layer, head, s, i) for i in range(d)] for s in slots] + [key])
        v = np.array([[far_value(layer, head, s, i) for i in range(d)] for s in slots] + [value])
        counts = np.append(counts, 1.0)
        return k[counts > 0], v[counts > 0], counts[counts > 0]

    return reference.token(token, FAR, cache)


def config(**changes):
    c = dict(model_type="spark2_5", hidden_act="gelu", gate_attn_act_mode="sigmoid", headwise_attn_output_gate=True,
             attention_bias=False, mlp_bias=False, max_position_embeddings=FAR + 1, rms_norm_eps=1e-6,
             tie_word_embeddings=True, bos_token_id=0, eos_token_id=1, pad_token_id=2)
    c.update(changes)
    c["num_hidden_layers"] = len(c["layer_types"])
    return c


def rope(theta, factor):
    return dict(rope_theta=theta, partial_rotary_factor=factor, rope_type="default")


CASES = {
    # Tied, bfloat16, three query heads a KV head, a window of 24: four windows deep.
    "tied-bf16": (config(hidden_size=32, intermediate_size=48, num_attention_heads=6, num_key_value_heads=2, head_dim=16,
                         vocab_size=96, sliding_window=24, layer_types=[SLIDING, SLIDING, FULL],
                         rope_parameters={SLIDING: rope(10000.0, 1.0), FULL: rope(5000000.0, 0.25)}), "BF16", 96),
    # Untied, float32, biases, sizes that are no multiples of anything, a window across block borders.
    "untied-biased-f32": (config(hidden_size=36, intermediate_size=44, num_attention_heads=4, num_key_value_heads=1,
                                 head_dim=10, vocab_size=61, sliding_window=70, layer_types=[FULL, SLIDING],
                                 attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
                                 rope_parameters={SLIDING: rope(10000.0, 1.0), FULL: rope(1000000.0, 0.6)}), "F32", 150),
}


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "data", "model")
    mpmath.mp.prec = 200
    for number, (name, (c, dtype, length)) in enumerate(CASES.items()):
        rng = np.random.default_rng(20 + number)
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        weights = {k: np.asarray(v, np.float32) for k, v in make_weights(c, rng).items()}
        if dtype == "BF16":
            stored = {k: (dtype, to_bfloat16(v)) for k, v in weights.items()}
            weights = {k: from_bfloat16(bits) for k, (_, bits) in stored.items()}
        else:
            stored = {k: (dtype, v) for k, v in weights.items()}
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(c, f, indent=1)
            f.write("\n")
        write_safetensors(os.path.join(folder, "model.safetensors"), stored)
        reference = Reference(c, weights)
        tokens = rng.integers(0, c["vocab_size"], length)
        far_token = 7
        write_safetensors(os.path.join(folder, "golden.safetensors"), {
            "tokens": ("I32", tokens.astype(np.int32)),
            "logits": ("F32", run(reference, tokens).astype(np.float32)),
            "far_token": ("I32", np.array([far_token], np.int32)),
            "far_logits": ("F32", run_far(reference, far_token).astype(np.float32))})
        print(name, sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)), "bytes")

    with open(os.path.join(out, "rope.txt"), "w") as f:
        f.write("# theta rotary_dims position i cos sin (mpmath, 200 bits)\n")
        for theta, dims in ((10000, 256), (5000000, 64), (1000000, 6)):
            for position in (0, 1, 511, 32768, 524287, FAR):
                for i in range(0, dims // 2, 1 if position == FAR else 7):
                    angle = mpmath.mpf(position) * mpmath.mpf(theta) ** (mpmath.mpf(-2 * i) / dims)
                    f.write(f"{theta} {dims} {position} {i} {float(mpmath.cos(angle))!r} {float(mpmath.sin(angle))!r}\n")


if __name__ == "__main__":
    main()
