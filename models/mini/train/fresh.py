"""Writes fresh_questions.jsonl: questions drawn after the training was over, on operands that no training step saw.

    python fresh.py                # a minute: draws again all that train.py drew, to know what was seen

Sums and differences: 500 new unordered pairs each, neither trained on nor in held_out.jsonl. Products of at most two digits
are so few that the training saw every pair but the 500 held out: these are asked again, in a random order of the two factors
and in new words.
"""
import json
import os
import random

import data
import tokenizer
import train

SEED = 20261201
FILE = os.path.join(data.HERE, "fresh_questions.jsonl")


def trained_pairs():
    """-> {operation: the unordered pairs that the steps of train.py drew}"""
    seen = {op: set() for op in data.OPERATIONS}
    draw = data.training_operands

    def recorded(op, rng, mix):
        pair = draw(op, rng, mix)
        seen[op].add(tuple(sorted(pair)))
        return pair

    data.training_operands = recorded
    t = tokenizer.load()
    for step in range(train.RATES[-1][0]):
        train.batch(step, t)
    data.training_operands = draw
    return seen


def fresh_pairs(op, seen, rng):
    """-> 500 pairs in the order in which they are asked"""
    if op == "multiply":
        assert not seen & data.HELD_OUT_PAIRS[op]
        pairs = [rng.sample(pair, 2) for pair in sorted(data.HELD_OUT_PAIRS[op])]
        rng.shuffle(pairs)
        return pairs
    pairs, taken = [], seen | data.HELD_OUT_PAIRS[op]
    while len(pairs) < data.HELD_OUT:
        pair = data.operands(op, rng)
        if tuple(sorted(pair)) not in taken:
            taken.add(tuple(sorted(pair)))
            pairs.append(pair)
    return pairs


def main():
    seen = trained_pairs()
    with open(FILE, "w", encoding="utf-8") as f:
        for op in data.OPERATIONS:
            rng = random.Random(f"{SEED} {op}")
            for a, b in fresh_pairs(op, seen[op], rng):
                _, question, answer = data.phrase(op, a, b, rng)
                f.write(json.dumps(dict(operation=op, a=a, b=b, question=question, answer=answer), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
