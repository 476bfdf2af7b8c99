#!/usr/bin/env python3
"""Writes tests/data/tokenizer/: a small tokenizer with Spark's pre-tokenizer, trained here, and what `tokenizers` makes of hard texts.

  pip install tokenizers==0.23.3
  tests/oracle/make_tokenizer_golden.py tests/data/tokenizer
"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from hard_texts import CODE, EMOJI, MARKERS, MARKS, NUMBERS, SYMBOLS, WORDS, mixtures
from make_regex_golden import SPARK

FIRST = ["<｜start▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>", "<think>", "</think>", "<unk>"]
LAST = ["<|System|>", "<|User|>", "<|Tool|>", "<|Bot|>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>"]


def build():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False, byte_fallback=False))
    splits = [pre_tokenizers.Split(Regex(p), "isolated") for p in (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", SPARK)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        splits + [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=640, special_tokens=FIRST, show_progress=False, min_frequency=2,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    rng = random.Random(3)
    text = WORDS * 6 + NUMBERS + SYMBOLS + EMOJI + MARKS + CODE * 4
    tokenizer.train_from_iterator([" ".join(rng.sample(text, 30)) for _ in range(200)], trainer)
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in LAST])
    spec = json.loads(tokenizer.to_str())
    for token in spec["added_tokens"]:
        token["special"] = token["content"] in FIRST[:3]
        if token["content"] == "<arg_key>":
            token.update(lstrip=True, rstrip=True)
        if token["content"] == "</arg_key>":
            token.update(single_word=True, normalized=True)
    return json.dumps(spec, ensure_ascii=False)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    spec = build()
    (folder / "tokenizer.json").write_text(spec + "\n")
    tokenizer = Tokenizer.from_str(spec)
    plain = json.loads(spec)
    plain["added_tokens"] = []
    plain = Tokenizer.from_str(json.dumps(plain))
    texts = WORDS + NUMBERS + EMOJI + MARKS + MARKERS + CODE + list(mixtures(random.Random(11), 300))
    texts += ["  <arg_key>  x", "a<arg_key>\n\u3000<arg_key>b", "a</arg_key>", " </arg_key>.", "²</arg_key>\u200d", "<think> </arg_key> </think>"]
    texts = [t for t in texts if len(t) < 400]
    with open(folder / "golden.json", "w") as file:
        rows = []
        for text in texts:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            rows.append(json.dumps(dict(text=text, ids=ids, plain_ids=plain.encode(text, add_special_tokens=False).ids,
                                        decoded=tokenizer.decode(ids, skip_special_tokens=False),
                                        without_special=tokenizer.decode(ids, skip_special_tokens=True)), ensure_ascii=False))
        # Ids in any order make bytes that are no text.
        rng = random.Random(5)
        for _ in range(100):
            ids = [rng.randrange(tokenizer.get_vocab_size()) for _ in range(rng.randint(1, 12))]
            rows.append(json.dumps(dict(ids=ids, decoded=tokenizer.decode(ids, skip_special_tokens=False),
                                        without_special=tokenizer.decode(ids, skip_special_tokens=True)), ensure_ascii=False))
        file.write("[" + ",\n".join(rows) + "]\n")


if __name__ == "__main__":
    sys.exit(main())
