"""spark2_5 in PyTorch, small: parameter names are those of the checkpoint's tensors."""
import json
import os

import torch
from torch import nn
from torch.nn import functional as F

from tokenizer import CHECKPOINT


def read_config():
    with open(os.path.join(CHECKPOINT, "config.json"), encoding="utf-8") as f:
        return json.load(f)


def rope_table(length, head_dim, parameters):
    """-> cos, sin [length, rotary_dims / 2]; angles in float64."""
    rotary = int(head_dim * parameters["partial_rotary_factor"])
    inverse = parameters["rope_theta"] ** (-torch.arange(0, rotary, 2, dtype=torch.float64) / rotary)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * inverse
    return angle.cos().float(), angle.sin().float()


def rope(x, cos, sin):
    """x [batch, heads, tokens, head_dim]; channel i pairs with channel i + rotary_dims / 2."""
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)


class RmsNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        self.q_k_v_proj = nn.Linear(c["hidden_size"], (self.heads + 2 * self.kv_heads) * self.head_dim, bias=False)
        self.g_proj = nn.Linear(c["hidden_size"], self.heads, bias=False)
        self.out_proj = nn.Linear(self.heads * self.head_dim, c["hidden_size"], bias=False)

    def forward(self, x, table, mask):
        batch, tokens, _ = x.shape
        qkv = self.q_k_v_proj(x).view(batch, tokens, -1, self.head_dim).transpose(1, 2)
        q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], 1)
        q, k = rope(q, *table), rope(k, *table)
        repeat = self.heads // self.kv_heads
        k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
        o = F.scaled_dot_product_attention(q, k, v, mask) * self.g_proj(x).sigmoid().transpose(1, 2)[..., None]
        return self.out_proj(o.transpose(1, 2).reshape(batch, tokens, -1))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.gelu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])
        self.post_attention_layernorm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn, self.mlp = Attention(c), Mlp(c)

    def forward(self, x, table, mask):
        x = x + self.self_attn(self.input_layernorm(x), table, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Spark(nn.Module):
    """forward(tokens, documents) -> logits. Tokens of different documents, packed in one row, do not see each other."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = nn.Module()
        self.model.embedding = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.model.layers = nn.ModuleList(Layer(config) for _ in config["layer_types"])
        self.model.norm = RmsNorm(config["hidden_size"], config["rms_norm_eps"])
        deviation = config["initializer_range"]
        for name, p in self.named_parameters():
            if p.dim() == 2:
                residual = name.endswith(("out_proj.weight", "down_proj.weight"))
                nn.init.normal_(p, std=deviation / (2 * len(self.model.layers)) ** 0.5 if residual else deviation)

    def forward(self, tokens, documents):
        c, length = self.config, tokens.shape[1]
        distance = torch.arange(length)[:, None] - torch.arange(length)
        causal = (documents[:, :, None] == documents[:, None, :]) & (distance >= 0)
        masks = {"full_attention": causal[:, None], "sliding_attention": (causal & (distance < c["sliding_window"]))[:, None]}
        tables = {kind: rope_table(length, c["head_dim"], c["rope_parameters"][kind]) for kind in masks}
        x = self.model.embedding(tokens)
        for layer, kind in zip(self.model.layers, c["layer_types"]):
            x = layer(x, tables[kind], masks[kind])
        return F.linear(self.model.norm(x), self.model.embedding.weight)
