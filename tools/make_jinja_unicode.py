"""Writes src/text/jinja/unicode_tables.inc: what Python's str methods say about every code point.

Templates are written for Python, so the tables come from the str methods of the Python that runs this script (3.11 has
Unicode 14), not from the Unicode files: usage: python3 tools/make_jinja_unicode.py > src/text/jinja/unicode_tables.inc
"""
import sys
import unicodedata

FLAGS = [
    ("space", lambda c: c.isspace()),
    ("decimal", lambda c: c.isdecimal()),
    ("digit", lambda c: c.isdigit()),
    ("numeric", lambda c: c.isnumeric()),
    ("alpha", lambda c: c.isalpha()),
    ("lower", lambda c: c.islower()),
    ("upper", lambda c: c.isupper()),
    ("title", lambda c: c.istitle() and not c.isupper()),
    ("printable", lambda c: c.isprintable()),
    # What follows the character tells the two properties that str has no method for: a letter behind a cased one is no
    # beginning of a word, and a sigma is final behind a cased one, case-ignorable ones between them left out.
    ("cased", lambda c: (c + "a").title()[-1] == "a"),
    ("ignorable", lambda c: ("a" + c + "Σ").lower()[-1] == "ς" and ("1" + c + "Σ").lower()[-1] != "ς"),
    ("identifier_start", lambda c: c.isidentifier()),
    ("identifier", lambda c: ("a" + c).isidentifier()),
]


def ranges():
    result = []
    for code in range(0x110000):
        char = chr(code)
        flags = sum(1 << bit for bit, (_, test) in enumerate(FLAGS) if test(char))
        if not result or result[-1][1] != flags:
            result.append((code, flags))
    return result


def mapping(convert):
    """Runs (first, last, stride, delta) of characters that become one character, and the list of all others."""
    single, special = [], []
    for code in range(0x110000):
        text = convert(chr(code))
        if text == chr(code):
            continue
        if len(text) == 1:
            single.append((code, ord(text) - code))
        else:
            special.append((code, text))
    runs = []
    for code, delta in single:
        if runs:
            first, last, stride, run_delta = runs[-1]
            step = code - last
            if run_delta == delta and step in (1, 2) and (stride == 0 or stride == step):
                runs[-1] = (first, code, step, delta)
                continue
        runs.append((code, code, 0, delta))
    return [(first, last, stride or 1, delta) for first, last, stride, delta in runs], special


def wrap(items):
    line = " "
    for item in items:
        if len(line) + len(item) > 118:
            print(line)
            line = " "
        line += " " + item
    print(line)


def main():
    print("// Written by tools/make_jinja_unicode.py from Python %d.%d, Unicode %s." % (*sys.version_info[:2], unicodedata.unidata_version))
    print("// clang-format off")
    for bit, (name, _) in enumerate(FLAGS):
        print("constexpr std::uint16_t k%s = 1u << %d;" % (name.title().replace("_", ""), bit))
    print("constexpr FlagRange kFlagRanges[] = {")
    wrap("{0x%x,%d}," % entry for entry in ranges())
    print("};")
    for name, convert in [("Upper", str.upper), ("Lower", str.lower), ("Title", str.title), ("Fold", str.casefold)]:
        runs, special = mapping(convert)
        print("constexpr CaseRun k%sRuns[] = {" % name)
        wrap("{0x%x,0x%x,%d,%d}," % run for run in runs)
        print("};")
        print("constexpr CaseSpecial k%sSpecial[] = {" % name)
        wrap("{0x%x,{%s}}," % (code, ",".join("0x%x" % ord(c) for c in text)) for code, text in special)
        print("};")


main()
