#!/usr/bin/env python3
"""Writes the checkpoint of make_random_checkpoint.py as a GGUF file in bfloat16, for measuring llama.cpp beside sparkx.

    python tools/make_random_gguf.py OUT.gguf [--shape 1.7b|4b] [--seed N]

Tensors and metadata have the names that llama.cpp gives this architecture (docs/model.md has the meaning of each); the
vocabulary is made up. Needs numpy and gguf, and memory for one tensor.
"""
import argparse
import math

import gguf
import numpy as np
from make_random_checkpoint import SHAPES, bfloat16, make_config, tensors

PARTS = {
    "input_layernorm": "attn_norm", "self_attn.q_k_v_proj": "attn_qkv", "self_attn.g_proj": "attn_gate",
    "self_attn.out_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    """"model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"."""
    whole = {"model.embedding.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    if name in whole:
        return whole[name]
    _, _, layer, part = name.removesuffix(".weight").split(".", 3)
    return f"blk.{layer}.{PARTS[part]}.weight"


def add_metadata(writer, shape, config):
    sliding, full = (config["rope_parameters"][kind] for kind in ("sliding_attention", "full_attention"))
    writer.add_name(f"random {shape}")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
    writer.add_rope_freq_base(full["rope_theta"])
    writer.add_rope_freq_base_swa(sliding["rope_theta"])
    writer.add_rope_dimension_count(int(config["head_dim"] * full["partial_rotary_factor"]))
    writer.add_rope_dimension_count_swa(int(config["head_dim"] * sliding["partial_rotary_factor"]))
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)


def add_vocabulary(writer, config):
    """Markers, a token for each byte as byte-level tokenizers spell it, and numbered words."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    spelled = {byte: chr(byte) for byte in shown}
    for byte in range(256):
        spelled.setdefault(byte, chr(0x100 + len(spelled) - len(shown)))
    words = ["<s>", "</s>", "<pad>"] + [spelled[byte] for byte in range(256)]
    words += [f"<w{i}>" for i in range(len(words), config["vocab_size"])]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("spark2_5")
    writer.add_token_list(words)
    writer.add_token_types([gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(words) - 3))
    writer.add_token_merges(["t h", "e r"])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--shape", choices=SHAPES, default="1.7b")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    config = make_config(arguments.shape)
    writer = gguf.GGUFWriter(arguments.out, "spark2_5")
    add_metadata(writer, arguments.shape, config)
    add_vocabulary(writer, config)
    bf16 = gguf.GGMLQuantizationType.BF16
    for name, shape, deviation in tensors(config):
        if deviation is None:
            writer.add_tensor_info(gguf_name(name), shape, np.dtype(np.float32), 4 * math.prod(shape))
        else:
            bytes_shape = (*shape[:-1], 2 * shape[-1])  # as gguf wants the shape of types that numpy does not have
            writer.add_tensor_info(gguf_name(name), bytes_shape, np.dtype(np.uint8), 2 * math.prod(shape), raw_dtype=bf16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    rng = np.random.default_rng(arguments.seed)
    for _, shape, deviation in tensors(config):
        if deviation is None:
            writer.write_tensor_data(np.ones(shape, np.float32))
        else:
            values = rng.standard_normal(math.prod(shape), np.float32) * np.float32(deviation)
            writer.write_tensor_data(bfloat16(values).view(np.uint8))
    writer.close()


if __name__ == "__main__":
    main()
