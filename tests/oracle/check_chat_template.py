#!/usr/bin/env python3
"""Compares our prompts with the real transformers: apply_chat_template, as text and as token ids.

usage: check_chat_template.py [--conversations N]
Checkpoints: the built-in model's files and, where the oracle data is there, its tied-f32 (the official template). Conversations
are made up from a seed: every kind of turn, tools, reasoning, blanks and scripts at the seams. $SPARKX names the binary.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
from transformers import PreTrainedTokenizerFast  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]

PIECES = ["hello", " world", "\n", "\n\n", "  ", "世界", "12345", "'s", "é", "e\u0301", "👩‍👩‍👧", "<b>", "|", "{}", "\t", ".", "?!", "\r\n",
          "ひらがな", "x = 1;", "\u00a0", "«»", "_", "#", "Ω", "don't", "  indented\n", "\\", '"quoted"', "<", ">", "/"]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": 'The "weather" <b>&</b> é',
                                           "parameters": {"type": "object", "properties": {"city": {"type": "string"},
                                                                                           "days": {"type": "integer", "default": 3}}}}},
         {"type": "function", "function": {"name": "search", "parameters": {"type": "object", "properties": {}}}}]


def text(rng, least=0):
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(least, 8)))


def value(rng):
    return rng.choice([text(rng), rng.randint(-5, 10**12), 1.5, 1e-7, True, None, [1, text(rng)], {text(rng, 1): text(rng)}])


def conversation(rng):
    messages = []
    if rng.random() < 0.4:
        messages.append({"role": "system", "content": text(rng)})
    for _ in range(rng.randint(1, 4)):
        messages.append({"role": "user", "content": rng.choice([text(rng), [{"type": "text", "text": text(rng)} for _ in range(2)]])})
        if rng.random() < 0.3:
            break
        answer = {"role": "assistant", "content": text(rng)}
        if rng.random() < 0.4:
            answer["reasoning_content"] = text(rng)
        if rng.random() < 0.4:
            answer["tool_calls"] = [{"id": f"c{i}", "type": "function",
                                     "function": {"name": "search", "arguments": {f"k{j}": value(rng) for j in range(rng.randint(0, 3))}}}
                                    for i in range(rng.randint(1, 2))]
        messages.append(answer)
        for call in answer.get("tool_calls", []):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text(rng)})
    request = {"messages": messages, "add_generation_prompt": rng.random() < 0.8}
    if rng.random() < 0.5:
        request["tools"] = TOOLS[:rng.randint(1, 2)]
    if rng.random() < 0.5:
        request["chat_template_kwargs"] = {"enable_thinking": rng.random() < 0.5}
    return request


def as_clients_send_it(request, rng):
    """The same conversation as OpenAI's clients may spell it."""
    request = json.loads(json.dumps(request))
    for message in request["messages"]:
        for call in message.get("tool_calls", []):
            if rng.random() < 0.5:
                call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=rng.random() < 0.5)
        if "reasoning_content" in message and rng.random() < 0.5:
            message["reasoning"] = message.pop("reasoning_content")
        if message["role"] == "system" and rng.random() < 0.5:
            message["role"] = "developer"
    return request


def compare(name, folder, binary, count):
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(folder))
    rng = random.Random(name)
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "messages.json"
        for _ in range(count):
            request = conversation(rng)
            file.write_text(json.dumps(as_clients_send_it(request, rng), ensure_ascii=False))
            arguments = {"tools": request.get("tools"), "add_generation_prompt": request["add_generation_prompt"],
                         **request.get("chat_template_kwargs", {})}
            text = tokenizer.apply_chat_template(request["messages"], tokenize=False, **arguments)
            ids = tokenizer.apply_chat_template(request["messages"], tokenize=True, return_dict=False, **arguments)
            for options, expected in (([], text.encode()), (["--tokens"], (" ".join(map(str, ids)) + "\n").encode())):
                run = subprocess.run([binary, "render", "-m", folder, "--messages", file, *options], capture_output=True)
                if run.stdout != expected:
                    wrong += 1
                    if wrong <= 3:
                        print(f"{name}: {json.dumps(request, ensure_ascii=False)}\n  expected {expected}\n  found    {run.stdout} {run.stderr}")
    print(f"{name}: {count} conversations, text and ids, {wrong} differ")
    return wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=300)
    options = parser.parse_args()
    binary = pathlib.Path(os.environ.get("SPARKX", ROOT / "build/release/sparkx")).resolve()
    oracle = pathlib.Path(os.environ.get("SPARKX_ORACLE_DIR") or ROOT / "../shared/oracle")
    results = [compare("built-in model", ROOT / "models/mini", binary, options.conversations)]
    skipped = 0
    if (oracle / "tied-f32").is_dir():
        results.append(compare("tied-f32", oracle / "tied-f32", binary, options.conversations))
    else:
        skipped = 1
        print(f"no oracle data in {oracle}")
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed, {skipped} skipped")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
