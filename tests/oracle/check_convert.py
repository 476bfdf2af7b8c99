#!/usr/bin/env python3
"""Compares sparkx convert with mlx_lm.convert: tensors, names, config.json and index must be the same to the bit, for every
mode and recipe, and mlx_lm must load what sparkx writes, from any format, with the logits of the source.

usage: check_convert.py
Sources: the oracle data's ($SPARKX_ORACLE_DIR, else ../shared/oracle). $SPARKX names the binary.
"""
import contextlib
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORACLE = pathlib.Path(os.environ.get("SPARKX_ORACLE_DIR") or ROOT / "../shared/oracle")
SPARKX = os.environ.get("SPARKX", str(ROOT / "build/release/sparkx"))
if not ORACLE.is_dir():
    print(f"no oracle data: {ORACLE}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

import mlx.core as mx  # noqa: E402
import mlx_lm  # noqa: E402
import numpy as np  # noqa: E402

mx.set_default_device(mx.cpu)
passed, failed = 0, 0


def check(name, problems):
    global passed, failed
    passed, failed = passed + (not problems), failed + bool(problems)
    if problems:
        print(f"FAILED {name}: {problems[:5]}", flush=True)


def tensors(folder):
    """Every tensor as (type, shape, bytes), and the files' metadata."""
    found = {}
    for path in sorted(folder.glob("model*.safetensors")):
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:8 + length]).items():
            if name == "__metadata__":
                found[name] = entry
                continue
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            found[name] = (entry["dtype"], entry["shape"], data[begin:end])
    return found


def compare(ours, theirs):
    a, b = tensors(ours), tensors(theirs)
    problems = [f"only one of them has {name}" for name in sorted(a.keys() ^ b.keys())]
    problems += [name for name in sorted(a.keys() & b.keys()) if a[name] != b[name]]
    for file in ("config.json", "model.safetensors.index.json"):
        if (ours / file).read_text() != (theirs / file).read_text():
            problems.append(file)
    return problems


def sparkx(source, output, *options):
    subprocess.run([SPARKX, "convert", "-m", str(source), "-o", str(output), *options], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE, text=True)


def mlx_convert(source, output, **options):
    with contextlib.redirect_stdout(io.StringIO()):
        mlx_lm.convert(hf_path=str(source), mlx_path=str(output), **options)


def changed(folder, source, **config):
    """A copy of a checkpoint with other members in its config.json."""
    copy = folder / ("source-" + "-".join(map(str, config.values())))
    shutil.copytree(source, copy)
    path = copy / "config.json"
    os.chmod(copy, 0o755)
    os.chmod(path, 0o644)
    path.write_text(json.dumps(json.loads(path.read_text()) | config, indent=2))
    return copy


def logits(folder, tokens):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        model, _ = mlx_lm.load(str(folder))
    model.set_dtype(mx.float32)
    return np.array(model(mx.array(tokens)[None])[0])


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        dense = ORACLE / "quant-source-bf16"
        sources = {"bf16": dense, "biased": ORACLE / "untied-biased-f32", "sharded": ORACLE / "sharded-bf16", "f32": ORACLE / "tied-f32",
                   "torch-f16": changed(folder, ORACLE / "tied-f32", torch_dtype="float16"),
                   "torch-bf16": changed(folder, ORACLE / "untied-biased-f32", torch_dtype="bfloat16")}
        cases = [((), {})]
        cases += [(("--dtype", dtype), dict(dtype=dtype)) for dtype in ("float32", "float16", "bfloat16")]
        cases += [(("-q", "--q-bits", str(bits), "--q-group-size", str(group)), dict(quantize=True, q_bits=bits, q_group_size=group))
                  for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
        cases += [(("--quantize", mode), dict(quantize=True, q_mode=mode)) for mode in ("mxfp4", "mxfp8", "nvfp4")]
        cases += [(("--recipe", recipe), dict(quantize=True, quant_predicate=recipe))
                  for recipe in ("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6")]
        cases += [(("-q", "--recipe", "mixed_3_6", "--group-size", "32", "--dtype", "float16"),
                   dict(quantize=True, quant_predicate="mixed_3_6", q_group_size=32, dtype="float16"))]
        for source_name, source in sources.items():
            for number, (options, keywords) in enumerate(cases):
                ours, theirs = folder / f"ours-{source_name}-{number}", folder / f"theirs-{source_name}-{number}"
                sparkx(source, ours, *options)
                mlx_convert(source, theirs, **keywords)
                check(f"{source_name} {' '.join(options)}", compare(ours, theirs))
                shutil.rmtree(ours)
                shutil.rmtree(theirs)

        # Once more from what is quantized already.
        for case in ("mlx-4bit-g64", "mlx-mixed-3-6", "mlx-nvfp4"):
            for options, keywords in (((), {}), (("--dtype", "float32"), dict(dtype="float32"))):
                ours, theirs = folder / f"ours-{case}-{len(options)}", folder / f"theirs-{case}-{len(options)}"
                sparkx(ORACLE / case, ours, *options)
                mlx_convert(ORACLE / case, theirs, **keywords)
                check(f"{case} {' '.join(options)}", compare(ours, theirs))

        # mlx_lm runs what came from other formats; the goldens are of the source's weights.
        for case in ("ct-w4a16-g128", "ct-w8a16-channel", "gguf-Q4_0.gguf", "gguf-Q4_1.gguf", "gguf-Q8_0.gguf", "gguf-Q6_K.gguf"):
            source = ORACLE / case
            golden = ORACLE / case.replace(".gguf", ".golden.safetensors") if case.endswith(".gguf") else source / "golden.safetensors"
            golden = mx.load(str(golden))
            output = folder / case.replace(".gguf", "")
            sparkx(source, output, "--dtype", "float32")
            wanted = np.array(golden["logits"], np.float64)
            found = logits(output, golden["tokens"])
            error = float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted ** 2)))
            check(f"mlx_lm with {case}", [] if error < 1e-5 else [f"relative RMS {error:.2e}"])
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


sys.exit(main())
