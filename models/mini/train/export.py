"""Writes a training checkpoint as ../model.safetensors, weights rounded to bfloat16.

    python export.py --run DIR
"""
import argparse
import os

import torch
from safetensors.torch import save_file

from tokenizer import CHECKPOINT


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", required=True, help="the folder given to train.py")
    saved = torch.load(os.path.join(parser.parse_args().run, "checkpoint.pt"))
    weights = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in saved["model"].items()}
    save_file(weights, os.path.join(CHECKPOINT, "model.safetensors"), metadata={"format": "pt"})
    print(f"step {saved['step']}: {len(weights)} tensors, {sum(w.numel() for w in weights.values())} parameters")


if __name__ == "__main__":
    main()
