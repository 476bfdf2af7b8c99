"""Makes tests/data/evaluation.json: perplexities of tests/data/model/tied-bf16 on its golden tokens, and how far another model is.

    python tests/oracle/make_evaluation_golden.py [tests/data/evaluation.json]

The other model is the same one with half the final norm and another rotary base in its sliding layers. Logits come from the float64
reference of make_model_goldens.py, anew for every window. Each token is looked at by itself: it is predicted by the first window
that holds the token before it. Needs numpy and mpmath.
"""
import json
import math
import os
import struct
import sys

import numpy as np

from make_model_goldens import SLIDING, Reference, from_bfloat16, run

DATA = os.path.join(os.path.dirname(__file__), "..", "data")
MODEL = os.path.join(DATA, "model", "tied-bf16")
OTHER_THETA, OTHER_NORM = 5000.0, 0.5
CUTS = [(95, 47), (200, 1), (32, 16), (32, 32), (20, 7), (1, 1)]  # context, stride


def read_safetensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    types = {"BF16": np.uint16, "I32": np.int32, "F32": np.float32}
    return {name: np.frombuffer(data[slice(*t["data_offsets"])], types[t["dtype"]]).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__"}


def log_softmax(logits):
    shifted = logits - logits.max()
    return shifted - math.log(np.exp(shifted).sum())


def windows_of(reference, tokens, context, stride):
    """Start of the window -> log-probabilities [position][vocabulary]."""
    logs = {}
    for start in range(0, len(tokens) - 1, stride):
        logs[start] = np.array([log_softmax(row) for row in run(reference, tokens[start:start + context])])
        if start + context >= len(tokens) - 1:
            break
    return logs


def prediction(logs, context, token):
    start = next(s for s in sorted(logs) if s <= token - 1 < s + context)
    return logs[start][token - 1 - start]


def summary(values):
    values = np.array(values)
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"mean": values.mean(), "standard_error": error}


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(DATA, "evaluation.json")
    config = json.load(open(os.path.join(MODEL, "config.json")))
    weights = {k: from_bfloat16(v) for k, v in read_safetensors(os.path.join(MODEL, "model.safetensors")).items()}
    tokens = read_safetensors(os.path.join(MODEL, "golden.safetensors"))["tokens"]
    other_config = json.loads(json.dumps(config))
    other_config["rope_parameters"][SLIDING]["rope_theta"] = OTHER_THETA
    other_weights = weights | {"model.norm.weight": weights["model.norm.weight"] * OTHER_NORM}
    models = Reference(config, weights), Reference(other_config, other_weights)

    golden = {"other": {"rope_theta": OTHER_THETA, "norm": OTHER_NORM}, "cuts": []}
    for context, stride in CUTS:
        logs = [windows_of(model, tokens, context, stride) for model in models]
        p, q = ([prediction(of, context, t) for t in range(1, len(tokens))] for of in logs)
        divergences = [float((np.exp(a) * (a - b)).sum()) for a, b in zip(p, q)]
        surprise = [summary([-row[t] for row, t in zip(of, tokens[1:])]) for of in (p, q)]
        golden["cuts"].append({
            "context": context, "stride": stride, "windows": len(logs[0]), "tokens": len(tokens) - 1,
            "reference": surprise[0], "other": surprise[1], "perplexity": math.exp(surprise[0]["mean"]),
            "divergence": summary(divergences), "median": float(np.median(divergences)), "largest": max(divergences),
            "same_top": sum(int(a.argmax() == b.argmax()) for a, b in zip(p, q)) / (len(tokens) - 1)})
    with open(out, "w") as f:
        json.dump(golden, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
