"""Asks a sparkx binary, greedily, every question of fresh_questions.jsonl and prints how many it answers exactly.

    python evaluate.py ../../../build/sparkx [--questions held_out.jsonl] [--model DIR] [--jobs 2] [--failures FILE]

An answer counts when the text after the reasoning is the expected one, to the letter, and the model stopped by itself.
--model takes a checkpoint folder instead of the model built into the binary.
"""
import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
MAX_TOKENS = 300


def ask(command, question):
    """-> (generated text, finish reason)"""
    run = subprocess.run(command + ["--json", "-p", question], capture_output=True, text=True, encoding="utf-8")
    if run.returncode:
        sys.exit(f"{' '.join(run.args)}: exit status {run.returncode}\n{run.stderr}")
    last = json.loads(run.stdout.splitlines()[-1])
    return last["text"], last["finish_reason"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sparkx", help="the binary")
    parser.add_argument("--questions", default=os.path.join(HERE, "fresh_questions.jsonl"), help="a JSON object a line")
    parser.add_argument("--model", help="a checkpoint folder (default: the built-in model)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--failures", help="write the questions answered wrongly to this file, a JSON object a line")
    args = parser.parse_args()

    command = [args.sparkx, "generate", "--temp", "0", "--max-tokens", str(MAX_TOKENS)] + (["-m", args.model] if args.model else [])
    with open(args.questions, encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    with ThreadPoolExecutor(args.jobs) as pool:
        replies = list(pool.map(lambda row: ask(command, row["question"]), rows))

    asked, right, failures = Counter(), Counter(), []
    for row, (text, finish_reason) in zip(rows, replies):
        asked[row["operation"]] += 1
        if finish_reason == "stop" and text.rpartition("</think>")[2] == row["answer"]:
            right[row["operation"]] += 1
        else:
            failures.append({**row, "text": text, "finish_reason": finish_reason})
    print("| operation | right | asked | share |\n|---|---|---|---|")
    for operation, n in asked.items():
        print(f"| {operation} | {right[operation]} | {n} | {right[operation] / n:.1%} |")
    if args.failures:
        with open(args.failures, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in failures)


if __name__ == "__main__":
    main()
