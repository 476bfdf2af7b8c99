#!/usr/bin/env python3
"""Writes tests/data/tokenizer/parts.json: what `tokenizers` makes of texts with components that Spark's tokenizer lacks.

  pip install tokenizers==0.23.3
  tests/oracle/make_tokenizer_parts_golden.py > tests/data/tokenizer/parts.json

Each case changes members of tests/data/tokenizer/tokenizer.json. "normalized" cases of the four forms follow.
"""
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer, normalizers

from hard_texts import BLANKS, MARKS, NORMALIZING, WORDS, random_character
from make_regex_golden import GPT4O

BASE = pathlib.Path(__file__).resolve().parents[1] / "data/tokenizer/tokenizer.json"
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
TEXTS = ["", " ", "Hello world", "  two  blanks ", "e\u0301te\u0301 \u1112\u1161\u11ab \ufb01 \u212b", "don't  STOP\n\nNow 12345",
         "x<think>e\u0301</think>  y", "a</arg_key>b </arg_key> c", "\u4f60\u597d\uff0c\u4e16\u754c", "\u00a0\u3000tail\t"]


def split(pattern, behavior, invert):
    return {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}, BYTE_LEVEL]}


CASES = {
    "NFC": {"normalizer": {"type": "NFC"}}, "NFD": {"normalizer": {"type": "NFD"}},
    "NFKC": {"normalizer": {"type": "NFKC"}}, "NFKD": {"normalizer": {"type": "NFKD"}},
    "strip": {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}},
    "prepend and replace": {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "_"}, {"type": "Replace", "pattern": {"String": " "}, "content": "__"},
        {"type": "Replace", "pattern": {"Regex": r"\d+|[A-Z]"}, "content": ""}]}},
    "normalized marker": {"normalizer": {"type": "Replace", "pattern": {"String": "arg"}, "content": "ARG"}},
    "prefix space": {"pre_tokenizer": BYTE_LEVEL | {"add_prefix_space": True}},
    "prefix space and pattern": {"pre_tokenizer": BYTE_LEVEL | {"add_prefix_space": True, "use_regex": True}},
    "removed": {"pre_tokenizer": split({"Regex": r"\s+"}, "Removed", False)},
    "removed inverted": {"pre_tokenizer": split({"Regex": GPT4O}, "Removed", True)},
    "isolated inverted": {"pre_tokenizer": split({"Regex": r"\p{L}+"}, "Isolated", True)},
    "string": {"pre_tokenizer": split({"String": "o w"}, "Isolated", False)},
}


def main():
    rows = []
    for name, change in CASES.items():
        tokenizer = Tokenizer.from_str(json.dumps(json.loads(BASE.read_text()) | change))
        cases = [dict(text=t, ids=tokenizer.encode(t, add_special_tokens=False).ids) for t in TEXTS]
        rows.append(json.dumps(dict(name=name, change=change, cases=cases), ensure_ascii=False))
    rng = random.Random(17)
    texts = NORMALIZING + MARKS
    for _ in range(200):
        parts = [rng.choice(rng.choice([NORMALIZING, NORMALIZING, MARKS, WORDS, BLANKS])) for _ in range(rng.randint(1, 5))]
        texts.append("".join(parts) + random_character(rng) * rng.randint(0, 1))
    forms = {form: getattr(normalizers, form.upper())().normalize_str for form in ("nfc", "nfd", "nfkc", "nfkd")}
    rows.append(json.dumps(dict(name="forms", normalized=[[t, *(f(t) for f in forms.values())] for t in texts]), ensure_ascii=True))
    print("[" + ",\n".join(rows) + "]")


if __name__ == "__main__":
    sys.exit(main())
