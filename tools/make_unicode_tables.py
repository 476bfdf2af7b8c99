#!/usr/bin/env python3
"""Writes src/core/unicode_tables.cc.

  pip install unicodedata2==16.0.0 tokenizers==0.23.3
  tools/make_unicode_tables.py > src/core/unicode_tables.cc

General categories are those of Unicode 16 (unicodedata2). The `tokenizers` wheel is the authority: its Oniguruma must agree with
them at every code point, and the sets in which its Rust parts differ from the categories are found by asking it about
every code point.
"""
import sys

import tokenizers
import unicodedata2
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, CODE_POINTS))
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn").split()


def matched_by_oniguruma(pattern):
    rest = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(TEXT)
    left = set()
    for piece, _ in rest:
        left.update(piece)
    return {c for c in CODE_POINTS if chr(c) not in left}


def with_category(*names):
    return {c for c in CODE_POINTS if unicodedata2.category(chr(c)) in names or unicodedata2.category(chr(c))[0] in names}


def numeric_for_digits_step():
    """The Digits pre-tokenizer cuts out every character that Rust's char::is_numeric accepts."""
    text = "x" + "".join(chr(c) + "x" for c in CODE_POINTS)
    pieces = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str(text)
    return {ord(p) for p, _ in pieces if len(p) == 1 and p != "x"}


def ask_added_token(added, text_of, accepts):
    tokenizer = Tokenizer(models.WordLevel({"[U]": 0}, "[U]"))
    tokenizer.add_tokens([added])
    found = set()
    for i in range(0, len(CODE_POINTS), 20000):
        chunk = CODE_POINTS[i:i + 20000]
        for c, encoding in zip(chunk, tokenizer.encode_batch([text_of(chr(c)) for c in chunk])):
            if accepts(encoding):
                found.add(c)
    return found


def ranges(code_points):
    out = []
    for c in sorted(code_points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def print_ranges(name, comment, code_points):
    found = ranges(code_points)
    print(f"// {comment}\nconst CodePointRange {name}[] = {{")
    for i in range(0, len(found), 6):
        print("    " + " ".join(f"{{0x{a:X}, 0x{b:X}}}," for a, b in found[i:i + 6]))
    print(f"}};\nconst std::size_t {name}Count = {len(found)};\n")


def main():
    assert unicodedata2.unidata_version == "16.0.0", unicodedata2.unidata_version
    for name in sorted({c[0] for c in CATEGORIES}) + [c for c in CATEGORIES if c != "Cs"]:
        assert matched_by_oniguruma(r"\p{%s}" % name) == with_category(name), f"Oniguruma disagrees about {name}"
    white_space = matched_by_oniguruma(r"\s")
    assert ask_added_token(AddedToken("QQ", rstrip=True, normalized=False), lambda c: "QQ" + c + "x",
                           lambda e: e.offsets[0][1] == 3) == white_space
    assert matched_by_oniguruma(r"\d") == with_category("Nd")
    word = matched_by_oniguruma(r"\w")
    rust_word = ask_added_token(AddedToken("QQ", single_word=True, normalized=False), lambda c: c + "QQ", lambda e: 1 not in e.ids)
    numeric = numeric_for_digits_step()
    assert numeric > with_category("N")

    categories = [unicodedata2.category(chr(c)) if not 0xD800 <= c < 0xE000 else "Cs" for c in range(0x110000)]
    starts = [(c, categories[c]) for c in range(0x110000) if c == 0 or categories[c] != categories[c - 1]]
    print("// Made by tools/make_unicode_tables.py "
          f"(unicodedata2 {unicodedata2.unidata_version}, tokenizers {tokenizers.__version__}); do not edit.")
    print("// clang-format off")
    print('#include "core/unicode_tables.h"\n\nnamespace sparkx::unicode_tables {\n')
    print("// Where each run of one general category begins: code point << 5 | category.")
    print("const std::uint32_t kCategoryRuns[] = {")
    for i in range(0, len(starts), 10):
        print("    " + " ".join(f"0x{c << 5 | CATEGORIES.index(k):X}," for c, k in starts[i:i + 10]))
    print(f"}};\nconst std::size_t kCategoryRunsCount = {len(starts)};\n")
    print_ranges("kWhiteSpace", "White_Space: \\s of Oniguruma and of Rust.", white_space)
    print_ranges("kWord", "\\w of Oniguruma.", word)
    print_ranges("kRustWord", "\\w of Rust's regex crate, which decides about single_word.", rust_word)
    print_ranges("kNumericBeyondNumber", "What Rust's char::is_numeric accepts beyond category N (a newer Unicode).",
                 numeric - with_category("N"))
    print("}  // namespace sparkx::unicode_tables")


if __name__ == "__main__":
    sys.exit(main())
