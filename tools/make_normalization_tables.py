#!/usr/bin/env python3
"""Writes src/core/unicode_normalization_tables.cc.

  pip install unicodedata2 tokenizers==0.23.3
  tools/make_normalization_tables.py > src/core/unicode_normalization_tables.cc

The `tokenizers` wheel is the authority (its tables are those of an older Unicode than its patterns have): every decomposition
is what it makes of the one character, every composition and combining class is asked of it. unicodedata2, which knows at
least as many characters, only says where to look.
"""
import sys

import tokenizers
import unicodedata2
from tokenizers import normalizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
NFC, NFD, NFKC, NFKD = (n().normalize_str for n in (normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD))
HANGUL = range(0xAC00, 0xD7A4)


def combining_classes():
    claimed = {c: unicodedata2.combining(chr(c)) for c in CODE_POINTS if unicodedata2.combining(chr(c))}
    lowest, highest = 0x334, 0x345  # classes 1 and 240

    def swapped(a, b):
        return NFD(chr(a) + chr(b)) != chr(a) + chr(b)

    marks = [c for c in CODE_POINTS if NFD(chr(c)) == chr(c) and (swapped(c, lowest) or swapped(highest, c))]
    representatives = {}
    for c in marks:
        representatives.setdefault(claimed[c], c)
    found = {}
    for c in marks:
        # unicodedata2 knows the class; the wheel must order the mark by it against one mark of each class.
        for of, r in representatives.items():
            assert swapped(r, c) == (of > claimed[c]) and swapped(c, r) == (claimed[c] > of), hex(c)
        found[c] = claimed[c]
    return found


def compositions():
    pairs = []
    for c in CODE_POINTS:
        parts = unicodedata2.decomposition(chr(c)).split()
        if len(parts) == 2 and not parts[0].startswith("<") and c not in HANGUL:
            first, second = (int(p, 16) for p in parts)
            if NFC(chr(first) + chr(second)) == chr(c):
                pairs.append((first, second, c))
    return sorted(pairs)


def print_rows(declaration, rows, columns):
    print(f"{declaration}[] = {{")
    for i in range(0, len(rows), columns):
        print("    " + " ".join(f"{row}," for row in rows[i:i + columns]))
    name = declaration.split()[-1]
    print(f"}};\nconst std::size_t {name}Count = {len(rows)};\n")


def main():
    pool, where = [], {}

    def pooled(text):
        if text not in where:
            where[text] = len(pool)
            pool.extend(map(ord, text))
        return where[text]

    tables = {}
    for name, form in (("kCanonical", NFD), ("kCompatible", NFKD)):
        tables[name] = [(c, form(chr(c))) for c in CODE_POINTS if c not in HANGUL and form(chr(c)) != chr(c)]
    canonical = dict(tables["kCanonical"])
    tables["kCompatible"] = [(c, text) for c, text in tables["kCompatible"] if canonical.get(c) != text]
    classes = combining_classes()
    runs = []
    for c in sorted(classes):
        if runs and runs[-1][1] == c - 1 and runs[-1][2] == classes[c]:
            runs[-1][1] = c
        else:
            runs.append([c, c, classes[c]])
    pairs = compositions()
    composed = {c for _, _, c in pairs}
    for c in CODE_POINTS:  # nothing else composes
        text = canonical.get(c)
        assert text is None or (NFC(text) == chr(c)) == (c in composed), hex(c)

    print(f"// Made by tools/make_normalization_tables.py (tokenizers {tokenizers.__version__}); do not edit.")
    print("// clang-format off")
    print('#include "core/unicode_normalization_tables.h"\n\nnamespace sparkx::unicode_tables {\n')
    for name, rows in tables.items():
        print_rows(f"const Decomposition {name}", [f"{{0x{c:X}, {pooled(text)}, {len(text)}}}" for c, text in rows], 6)
    print_rows("const char32_t kDecomposed", [f"0x{c:X}" for c in pool], 14)
    print_rows("const Composition kCompositions", [f"{{0x{a:X}, 0x{b:X}, 0x{c:X}}}" for a, b, c in pairs], 5)
    print_rows("const CombiningClass kCombiningClasses", [f"{{0x{a:X}, 0x{b:X}, {k}}}" for a, b, k in runs], 6)
    print("}  // namespace sparkx::unicode_tables")


if __name__ == "__main__":
    sys.exit(main())
