#!/usr/bin/env python3
"""Makes tests/data/calibration: texts for the built-in model by its own generator, with seeds that no training used, and
importance matrices of llama.cpp's llama-imatrix on the first of them.

    tests/oracle/make_calibration_data.py [LLAMA_IMATRIX]

calibration.txt is what a conversion calibrates with, held_out.txt what it is judged by; no conversation is in both.
"""
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "tests" / "data" / "calibration"
MINI = ROOT / "models" / "mini"
TEXTS = {"calibration.txt": (20261202, 100), "held_out.txt": (20261201, 120)}  # seed, conversations

sys.path.insert(0, str(MINI / "train"))
import data  # noqa: E402


def conversations(seed, count):
    rng = random.Random(seed)
    return ["".join(text for text, _ in data.conversation(rng)) for _ in range(count)]


def main():
    seen = set()
    for name, (seed, count) in TEXTS.items():
        texts = conversations(seed, count)
        assert not seen & set(texts)
        seen |= set(texts)
        (OUT / name).write_text("".join(texts), encoding="utf-8")
    if len(sys.argv) < 2:
        return
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "mini.gguf"
        subprocess.run([ROOT / "build" / "sparkx", "convert", "-m", MINI, "-o", model, "--quantize", "BF16"], check=True)
        for form in ("gguf", "dat"):
            subprocess.run([sys.argv[1], "-m", model, "-f", OUT / "calibration.txt", "-o", OUT / f"mini.imatrix.{form}",
                            "--output-format", form, "-c", "512", "-t", "1", "--parse-special"], check=True, cwd=OUT)


main()
