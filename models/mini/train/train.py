"""Trains the mini model on conversations from data.py; stops and resumes at any step with the same result.

    python train.py --run DIR [--threads N]    # writes DIR/checkpoint.pt and DIR/log.txt

Step s sees the batch that the generator draws from seed (SEED, s), so a resumed run sees the data it would have seen.
Hidden matrices learn with Muon, the embedding, norms and gates with AdamW. The learning rates follow RATES.
MIXES brings in more of what is learnt last: differences, and numbers of unequal lengths.
"""
import argparse
import os
import random
import time

import numpy as np
import torch
from torch.nn import functional as F

import data
import tokenizer
from model import Spark, read_config

SEED = 20261130
ROWS, LENGTH = 12, 352          # a batch: rows of several whole conversations (longer ones, very rare, are left out)
# (step, share of the full rate), linear in between
RATES = [(0, 0.01), (99, 1.0), (1076, 1.0), (1882, 0.558), (3200, 0.0), (3201, 0.16), (3390, 0.0)]
MIXES = [(0, data.Mix()), (1076, data.Mix(operations=(27, 31, 42))),    # (from this step on, what is asked)
         (2350, data.Mix(operations=(33, 40, 27), lengths=(20, 25, 30, 25), one_digit=0.3, negative=0.35)),
         (3200, data.Mix(operations=(15, 60, 25), lengths=(20, 30, 30, 20), one_digit=0.5, negative=0.6,
                        without_thinking=0.3))]
SAVE_SECONDS = 120
IGNORE = -100                    # a target without loss


def encode(pieces, t):
    """-> (tokens, targets): each position's target is the next token where that is to be learnt."""
    tokens, learn = [], []
    for text, learnt in pieces:
        ids = t.encode(text).ids
        tokens += ids
        learn += [learnt] * len(ids)
    return tokens, [i if learnt else IGNORE for i, learnt in zip(tokens[1:] + [0], learn[1:] + [False])]


def batch(step, t):
    """-> tokens, targets, documents [ROWS, LENGTH]; document 0 is padding."""
    rng = random.Random(f"{SEED} {step}")
    mix = [m for first, m in MIXES if first <= step][-1]
    tokens, targets, documents = (torch.full((ROWS, LENGTH), v) for v in (2, IGNORE, 0))
    used, misses, document = [0] * ROWS, 0, 0
    while misses < 4:
        x, y = encode(data.conversation(rng, mix), t)
        row = next((r for r in range(ROWS) if used[r] + len(x) <= LENGTH), None)
        if row is None:
            misses += 1
            continue
        document += 1
        place = slice(used[row], used[row] + len(x))
        tokens[row, place], targets[row, place] = torch.tensor(x), torch.tensor(y)
        documents[row, place] = document
        used[row] += len(x)
    return tokens, targets, documents


def orthogonal(g):
    """Newton-Schulz iterations toward the nearest orthogonal matrix, for a stack of matrices at once."""
    x = g / (g.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    flip = x.shape[-2] > x.shape[-1]
    x = x.mT if flip else x
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return x.mT if flip else x


class Muon(torch.optim.Optimizer):
    """Momentum whose update is made orthogonal; matrices of one shape are handled together."""

    def __init__(self, parameters, lr, momentum=0.95, weight_decay=0.01):
        shapes = {}
        for p in parameters:
            shapes.setdefault(p.shape, []).append(p)
        super().__init__([dict(params=v) for v in shapes.values()], dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            directions = []
            for p in group["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                momentum.lerp_(p.grad, 1 - group["momentum"])
                directions.append(p.grad.lerp(momentum, group["momentum"]))
            rows, columns = directions[0].shape
            scale = group["lr"] * max(1.0, rows / columns) ** 0.5
            for p, update in zip(group["params"], orthogonal(torch.stack(directions))):
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(update, alpha=scale)


def optimizers(model):
    hidden = [p for name, p in model.named_parameters() if p.dim() == 2 and "embedding" not in name and "g_proj" not in name]
    ids = {id(p) for p in hidden}
    rest = [p for p in model.parameters() if id(p) not in ids]
    return [Muon(hidden, lr=0.02), torch.optim.AdamW(rest, lr=0.003, betas=(0.9, 0.98), weight_decay=0.0)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", required=True, help="folder for the checkpoint and the log")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    os.makedirs(args.run, exist_ok=True)
    path = os.path.join(args.run, "checkpoint.pt")
    log = open(os.path.join(args.run, "log.txt"), "a", encoding="utf-8", buffering=1)

    torch.manual_seed(SEED)
    torch.set_num_threads(args.threads)
    t = tokenizer.load()
    model = Spark(read_config())
    learners = optimizers(model)
    base_rates = [[g["lr"] for g in learner.param_groups] for learner in learners]
    start = 0
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        for learner, state in zip(learners, saved["optimizers"]):
            learner.load_state_dict(state)
        start = saved["step"]
    steps = RATES[-1][0]
    log.write(f"start at step {start} of {steps}, {sum(p.numel() for p in model.parameters())} parameters\n")
    run = torch.compile(model, dynamic=False)

    def save(step):
        torch.save(dict(model=model.state_dict(), optimizers=[learner.state_dict() for learner in learners], step=step), path + ".new")
        os.replace(path + ".new", path)

    saved_at = logged_at = time.time()
    losses, tokens_seen = [], 0
    for step in range(start, steps):
        rate = float(np.interp(step, *zip(*RATES)))
        tokens, targets, documents = batch(step, t)
        loss = F.cross_entropy(run(tokens, documents).flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        loss.backward()
        for learner, rates in zip(learners, base_rates):
            for group, base in zip(learner.param_groups, rates):
                group["lr"] = base * rate
            learner.step()
            learner.zero_grad()
        losses.append(loss.item())
        tokens_seen += int((documents > 0).sum())
        if (step + 1) % 20 == 0:
            now = time.time()
            log.write(f"step {step + 1} loss {sum(losses) / len(losses):.4f} rate {rate:.3f} "
                      f"{tokens_seen / (now - logged_at):.0f} tokens/s\n")
            losses, tokens_seen, logged_at = [], 0, now
        if time.time() - saved_at > SAVE_SECONDS or step + 1 == steps:
            save(step + 1)
            saved_at = time.time()


if __name__ == "__main__":
    main()
