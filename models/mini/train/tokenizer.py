"""The mini model's tokenizer: byte-level BPE with Spark's pre-tokenizer and markers, merges learnt from data.py.

    python tokenizer.py            # writes ../tokenizer.json and ../tokenizer_config.json

Ids: the head markers, the 256 bytes, the merges, unused markers as room for later abilities, the tail markers.
"""
import json
import os
import random
import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import data

CHECKPOINT = os.path.join(data.HERE, "..")
VOCABULARY = 1024
MERGED = 640                     # at most: head markers, bytes and merges; what is left is unused markers
HEAD = [data.START, data.END, "<｜▁pad▁｜>", "<think>", "</think>", "<unk>"]
TAIL = ["<|System|>", "<|User|>", "<|Tool|>", "<|Developer|>", "<|Bot|>", "<tool_call>", "<tool_response>", "</tool_response>",
        "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>"]
SPECIAL = HEAD[:3]               # what skip_special_tokens hides, besides the unused ones; other markers are text that programs read
SPLITS = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
          r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"]


def build():
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(s), "isolated") for s in SPLITS]
        + [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    rng = random.Random("tokenizer")
    texts = ["".join(text for text, _ in data.conversation(rng)) for _ in range(20000)]
    markers = re.compile("|".join(re.escape(t) for t in HEAD + TAIL))
    trainer = trainers.BpeTrainer(vocab_size=MERGED, special_tokens=HEAD, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator((part for text in texts for part in markers.split(text)), trainer)
    return with_markers(json.loads(tokenizer.to_str()))


def with_markers(spec):
    """Adds the unused markers and, as the last ids, the tail markers."""
    merged = len(spec["model"]["vocab"])
    unused = [f"<|unused_{i}|>" for i in range(VOCABULARY - merged - len(TAIL))]
    ids = dict(enumerate(HEAD)) | dict(enumerate(unused + TAIL, start=merged))
    spec["added_tokens"] = [dict(id=i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False,
                                 special=t in SPECIAL + unused) for i, t in ids.items()]
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    assert tokenizer.token_to_id(TAIL[-1]) == VOCABULARY - 1 == tokenizer.get_vocab_size() - 1
    return tokenizer


def load():
    return Tokenizer.from_file(os.path.join(CHECKPOINT, "tokenizer.json"))


def main():
    build().save(os.path.join(CHECKPOINT, "tokenizer.json"))
    config = dict(tokenizer_class="PreTrainedTokenizerFast", bos_token=HEAD[0], eos_token=HEAD[1], pad_token=HEAD[2], unk_token="<unk>",
                  add_bos_token=False, clean_up_tokenization_spaces=False, model_max_length=8192)
    with open(os.path.join(CHECKPOINT, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2, ensure_ascii=False)
        f.write("\n")


if __name__ == "__main__":
    main()
