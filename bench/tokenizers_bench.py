#!/usr/bin/env python3
"""Measures the `tokenizers` library on the texts of tokenizer_bench.cc.  usage: bench/tokenizers_bench.py TOKENIZER.json"""
import os
import pathlib
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXTS = {
    "markdown": ["docs/model.md", "docs/numerics.md", "tests/README.md"],
    "code": ["src/core/regex.cc", "src/text/bpe.cc", "src/core/unicode.cc"],
    "chinese": ["bench/chinese.txt"],
}


def main():
    begin = time.process_time()
    tokenizer = Tokenizer.from_file(sys.argv[1])
    print(f"load {1000 * (time.process_time() - begin):.0f} ms")
    for name, files in TEXTS.items():
        text = "".join((ROOT / f).read_text() for f in files if (ROOT / f).exists())
        text *= 1_000_000 // len(text.encode()) + 1
        best = min(measure(tokenizer, text) for _ in range(3))
        print(f"encode/{name} {len(text.encode()) / best / 1e6:.2f} MB/s")


def measure(tokenizer, text):
    begin = time.process_time()
    tokenizer.encode(text, add_special_tokens=False)
    return time.process_time() - begin


if __name__ == "__main__":
    main()
