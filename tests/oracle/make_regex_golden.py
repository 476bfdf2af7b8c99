#!/usr/bin/env python3
"""Writes tests/data/regex_golden.json: patterns, texts and what real engines make of them.

  pip install tokenizers==0.23.3
  tests/oracle/make_regex_golden.py > tests/data/regex_golden.json

"pieces": how the Split pre-tokenizer of `tokenizers` (Oniguruma) cuts the text. "end": where Python's re.match ends, in bytes.
"""
import json
import random
import re
import sys

from tokenizers import Regex, pre_tokenizers

SPARK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]"""
         r"""|\s+(?!\S)|\s+""")
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
GPT4O = (r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
         r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
         r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
ONIGURUMA = [SPARK, GPT2, LLAMA3, GPT4O, r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", r"\s+$", r"^\w+", "a*", "a*?", "a+?b", "(a|ab)(c|bcd)", "x*(?=y)",
             r"\d{2}|\d", r"[^\S\n]+", r"\p{Uppercase_Letter}\p{ll}*", r"\P{L}+", r"\p{^L}+", r"[\x{4E00}-\x{9FA5}]", r"\u00e9|\x41", "(?:ab|a)b?",
             "a{2,}", "a{,2}", "a{3}", "(?:ab){1,2}?", ".+", r"\z|b", r"\Aa", "b|$", "^", "a|", "(?i:k[a-c]|s)", r"[\]\-\[]+", "[]a]+", "[a-]+",
             r"\t|\f|\v|\e|\a", r"\W+", r"\D+", r"[\p{Lu}\d_]+", "(?=[ab])[a-z]", "(?!b|$)."]
TEXTS = ["", "a", "aaa", "ab", "abcd abcd", "aab\nab\n", "Hello World's  THAT'S I'LL\r\n\r\n  end", "price: 12345.678 USD", "你好，世界 ひらカナ 한국어 abc",
         "é e\u0301 Éa ǅ ª ﬁ", "kK\u212asSſ KA Kc", "tabs\t\tand\u00a0nbsp\u3000wide", "😀👍🏽 x²½Ⅷ٣", "  \n \t\n  x  ", "[]-a-[", "xxyxy", "_a9_ß \x0b\x0c\x1b",
         "<｜end▁of▁sentence｜>", "a\u200db\u200c² \u180ee", "\n", "bab\nba", "ＡＢｃ１２ 𝕳𝖊"]
PYTHON = [r".*lm_head", r".*mlp\.(gate|up|down)_proj$", r"model\.layers\.[0-9]+\.self_attn\.q_k_v_proj", r".*layers\.(0|1|2)\..*", r".*\.out_proj$",
          r"^model", r"model$", r"(?:model\.)?layers\.\d{1,2}\.", r"[^.]+\.", r"\w+", r".*?\.", r".*[02468]\.mlp", r"\S+\Z", "a|ab", "(ab|a)(c|bcd)", "",
          r"model\.layers\.(?!1)\d+", r"x*", r"\s*", r".*(gate|up)_proj.*"]
NAMES = ["lm_head", "model.layers.0.mlp.gate_proj", "model.layers.12.mlp.down_proj", "model.layers.7.self_attn.out_proj", "model.embedding", "model",
         "model\n", "model\n\n", "model.layers.10.self_attn.q_k_v_proj", "abcd", "", "\x1c x", "Größe²_x", "model.layers.2.mlp.up_proj\n"]


def random_pattern(rng, depth=0, bounded=False):
    """Repeated groups contain only short, never empty things: backtracking engines take exponential time for others."""
    atoms = ["a", "b", "c", "[ab]", "[^a]", ".", r"\s", r"\w", " ", r"\d", "1"]
    out = ""
    for _ in range(rng.randint(1, 4)):
        quantifier = rng.choice(["", "", "{1,2}", "{2}"] if bounded else ["", "", "", "*", "+", "?", "*?", "+?", "??", "{1,2}", "{2}", "{0,2}?"])
        if depth < 2 and rng.random() < 0.3:
            choices = [random_pattern(rng, depth + 1, bounded or quantifier != "") for _ in range(rng.randint(1, 3))]
            atom = "(?:" + "|".join(choices) + ")"
        else:
            atom = rng.choice(atoms)
        out += atom + quantifier
    if depth == 0 and rng.random() < 0.15:
        out += rng.choice(["(?!a)", "(?=b)", r"(?!\S)", "$"])
    return out


def pieces(pattern, text):
    return [piece for piece, _ in pre_tokenizers.Split(Regex(pattern), "isolated").pre_tokenize_str(text)]


def main():
    rng = random.Random(7)
    cases = [dict(syntax="oniguruma", pattern=p, text=t, pieces=pieces(p, t)) for p in ONIGURUMA for t in TEXTS]
    cases += [dict(syntax="python", pattern=p, text=t) for p in PYTHON for t in NAMES]
    for i in range(600):
        pattern = random_pattern(rng)
        while len(pattern) > 40:
            pattern = random_pattern(rng)
        for _ in range(2):
            text = "".join(rng.choice("aaabbbc 1\n") for _ in range(rng.randint(1, 10)))
            if i % 2:
                cases.append(dict(syntax="oniguruma", pattern=pattern, text=text, pieces=pieces(pattern, text)))
            else:
                cases.append(dict(syntax="python", pattern=pattern, text=text))
    for case in cases:
        if case["syntax"] == "python":
            match = re.match(case["pattern"], case["text"])
            case["end"] = len(case["text"][:match.end()].encode()) if match else None
    print("[" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "]")


if __name__ == "__main__":
    sys.exit(main())
