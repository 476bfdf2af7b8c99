"""Makes tests/data/sampling.json: cases for the sampler, computed in float64 by an implementation of its own.

The steps are those of docs/numerics.md, rule 11 (include/sparkx/sampling.hpp numbers them). Cases in which float32 could
decide otherwise (a top-p or min-p border, or a random number, too near a border between two tokens) are drawn again.

usage: python3 tests/oracle/sampling.py > tests/data/sampling.json
"""

import json
import math
import random

SEEDS = 24  # draws of each case
MASK32 = 0xFFFFFFFF


def philox(counter, key):
    """Philox 4x32-10, from the paper's definition."""
    c = list(counter)
    k = list(key)
    for _ in range(10):
        hi0, lo0 = divmod(0xD2511F53 * c[0], 1 << 32)
        hi1, lo1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [hi1 ^ c[1] ^ k[0], lo1, hi0 ^ c[3] ^ k[1], lo0]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return c


def unit(seed, position):
    words = philox([position & MASK32, position >> 32, 0, 0], [seed & MASK32, seed >> 32])
    return ((words[0] << 21) | (words[1] >> 11)) / 2.0**53


class TooClose(Exception):
    pass


def adjusted(case):
    """Steps 1 to 4."""
    logits = [float(l) for l in case["logits"]]
    options = case["options"]
    tokens = case["tokens"]
    generated = tokens[case["prompt_length"] :]
    if case["allowed"] is not None:
        logits = [l if i in case["allowed"] else -math.inf for i, l in enumerate(logits)]
    window = options["repetition_window"]
    for i in set(tokens[-window:] if window else tokens):
        penalty = options["repetition_penalty"]
        logits[i] = logits[i] / penalty if logits[i] > 0 else logits[i] * penalty
    for i in set(generated):
        logits[i] -= generated.count(i) * options["frequency_penalty"] + options["presence_penalty"]
    for i, bias in options["logit_bias"]:
        logits[i] += bias
    return logits


def kept(logits, options):
    """Steps 5 to 8: {id: probability} of what may be drawn."""
    z = [l / options["temperature"] for l in logits]
    top = max(z)
    weight = {i: math.exp(v - top) for i, v in enumerate(z) if v > -math.inf}
    order = sorted(weight, key=lambda i: (-logits[i], i))
    if options["top_k"] > 0:
        order = order[: options["top_k"]]
    if options["top_p"] < 1:
        total = sum(weight[i] for i in order)
        running, count = 0.0, 0
        while count < len(order) and running < options["top_p"] * total:
            running += weight[order[count]]
            count += 1
            if abs(running / total - options["top_p"]) < 1e-4:
                raise TooClose
        order = order[:count]
    for i in order:
        if options["min_p"] > 0 and abs(weight[i] / options["min_p"] - 1) < 1e-4:
            raise TooClose
    order = [i for i in order if weight[i] >= options["min_p"]]
    total = sum(weight[i] for i in order)
    return {i: weight[i] / total for i in order if weight[i] > 1e-30}


def draw(distribution, u):
    running = 0.0
    for i in sorted(distribution):
        running += distribution[i]
        if abs(running - u) < 1e-5 and running < 1 - 1e-9:
            raise TooClose
        if running > u:
            return i
    raise TooClose


def make(rng):
    vocabulary = rng.choice([5, 16, 33, 100])
    scale = rng.choice([0.5, 2.0, 6.0])
    # Few distinct values in some cases: ties must go to the lowest id.
    grain = 1 if rng.random() < 0.3 else 256
    values = [round(rng.gauss(0, scale) * grain) / grain for _ in range(vocabulary)]
    tokens = [rng.randrange(vocabulary) for _ in range(rng.choice([1, 4, 12, 40]))]
    options = {
        "temperature": rng.choice([1.0, 1.0, 0.5, 1.75, 0.125]),
        "top_k": rng.choice([0, -1, 1, 2, 5, 20, 1000]),
        "top_p": rng.choice([1.0, 1.0, 0.95, 0.75, 0.25]),
        "min_p": rng.choice([0.0, 0.0, 0.0625, 0.25]),
        "repetition_penalty": rng.choice([1.0, 1.0, 1.5, 0.75]),
        "repetition_window": rng.choice([0, 0, 1, 3]),
        "presence_penalty": rng.choice([0.0, 0.0, 1.5, -0.5]),
        "frequency_penalty": rng.choice([0.0, 0.0, 0.75]),
        "logit_bias": [[rng.randrange(vocabulary), rng.choice([-100.0, 2.5, -1.0])] for _ in range(rng.choice([0, 0, 2]))],
    }
    case = {
        "logits": values,
        "tokens": tokens,
        "prompt_length": rng.randrange(len(tokens) + 1),
        "allowed": None if rng.random() < 0.7 else sorted(rng.sample(range(vocabulary), vocabulary // 2)),
        "options": options,
    }
    logits = adjusted(case)
    case["greedy"] = max(range(vocabulary), key=lambda i: (logits[i], -i))
    distribution = kept(logits, options)
    case["distribution"] = [[i, round(math.log(p), 7)] for i, p in distribution.items()]  # most probable first
    case["draws"] = [draw(distribution, unit(seed, len(tokens))) for seed in range(SEEDS)]
    raw = case["logits"]
    log_sum = math.log(sum(math.exp(l - max(raw)) for l in raw)) + max(raw)
    case["model_logprobs"] = [round(l - log_sum, 7) for l in raw]
    return case


def main():
    rng = random.Random(20260)
    cases = []
    while len(cases) < 60:
        try:
            cases.append(make(rng))
        except TooClose:
            continue
    print("[")
    print(",\n".join(json.dumps(case) for case in cases))
    print("]")


main()
