"""Writes tests/data/json_golden.txt: what Python's json makes of many texts.

Each line has fields separated by tabs, every field itself a JSON string in ASCII:
  text, "ok" or "error", then for "ok": json.dumps with ensure_ascii=False, with ensure_ascii, with indent=2 and sort_keys,
  with separators (",", ":").
Lines that begin with "repr" have a double's bits in hexadecimal and its repr.

Python is stricter or laxer than RFC 8259 in a few places; those texts are left to hand-written tests.
"""

import json
import pathlib
import random
import struct
import sys

random.seed(20)
texts = []

texts += [
    "null", "true", "false", "0", "-0", "1", "-1", "12", "1.5", "-0.0", "1e5", "1E5", "1e+5", "1e-5", "0.1", "18.4",
    "123456789012345678901234567890", "-123456789012345678901234567890", "9" * 400, "-" + "8" * 1000,
    '""', '"a"', '"\\u0041"', '"\\ud83d\\ude00"', '"😀"', '"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\u0000"', '"\\u001f\\u007f"',
    '"\u007f\u0080\u2028\uffff"', "[]", "{}", "[[]]", '{"a":{}}', " [ 1 , 2 ] ", "\t\r\n{ \"a\" : 1 }\n", '{"":0}',
    '{"b":1,"a":2}', '{"a":[1,2,{"b":null}],"c":"d"}', '{"é":1,"e":2,"😀":3,"\uffff":4}', "[" * 100 + "]" * 100,
    '{"a":' * 60 + "1" + "}" * 60,
]
texts += [
    "", " ", "nul", "nulll", "True", "tru", "+1", ".5", "1.", "1.e5", "01", "-", "-01", "1e", "1e+", "0x10", "1_0",
    "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1,,2]", "{", "}", "{,}", '{"a"}', '{"a":}', '{"a":1', '{"a":1,}',
    '{"a" 1}', "{a:1}", "{'a':1}", "{1:2}", '{"a":1 "b":2}', '"', '"a', '"\\', '"\\"', '"\\x"', '"\\u"', '"\\u12"',
    '"\\u12g4"', '"\\ud83d\\u"', '"a\nb"', '"a\tb"', '"\x01"', "1 2", "[] []", "{}x", "null null", "1,", "//x\n1", "/**/1",
    "[1,2,3", '{"a":[1,2}', "[1,2}", "\ufeff1", "\u00a01", "\u20281", "- 1", "1 .5", "1e5.5", "'a'", "\"a\" \"b\"", "[1]]", "undefined",
]


def random_value(depth):
    kind = random.randrange(10)
    if depth == 0 or kind < 4:
        return random.choice([
            None, True, False, random.randrange(-10**6, 10**6), random.randrange(-10**40, 10**40),
            random.uniform(-1e3, 1e3), random.uniform(0, 1) * 10.0 ** random.randrange(-30, 30),
            "".join(chr(random.choice([random.randrange(0, 128), random.randrange(0x80, 0xD800),
                                       random.randrange(0xE000, 0x110000)])) for _ in range(random.randrange(8))),
        ])
    if kind < 7:
        return [random_value(depth - 1) for _ in range(random.randrange(5))]
    return {"".join(random.choice("abcé\"\\\n😀z") for _ in range(random.randrange(4))): random_value(depth - 1)
            for _ in range(random.randrange(5))}


for i in range(300):
    texts.append(json.dumps(random_value(4), ensure_ascii=bool(i % 2), indent=[None, 1, None, 3][i % 4]))
# Damaged documents: one character removed, doubled or replaced.
for i in range(300):
    text = json.dumps(random_value(3), ensure_ascii=True)
    at = random.randrange(len(text))
    texts.append(text[:at] + random.choice(["", text[at] * 2, random.choice('{}[],:"\\0e-. xn')]) + text[at + 1:])

doubles = [0.0, -0.0, 1.0, -1.0, 0.1, 1e-4, 1e-5, 9.999e-5, 1e-6, 1e15, 1e16, 123456789012345680.0, 9007199254740993.0, 1e22, 1e23,
           5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 18.4, 100.0, 1e100, 1.5e16, 0.00012345, 5000000.0, 1e-06]
for _ in range(500):
    doubles.append(struct.unpack("<d", struct.pack("<Q", random.getrandbits(64)))[0])
    doubles.append(random.uniform(-10, 10) * 10.0 ** random.randrange(-20, 20))
doubles = [d for d in doubles if d == d and abs(d) != float("inf")]


def refuse(_):
    raise ValueError


def field(s):
    return json.dumps(s, ensure_ascii=True)




class Text(float):
    def __new__(cls, text):
        self = float.__new__(cls, text)
        self.text = text
        return self

    def __repr__(self):
        return self.text


def dumps(value, indent=None, separators=None, **options):
    """json.dumps, except that a number prints with the text it was read from."""
    encoder = json.JSONEncoder(indent=indent, separators=separators, **options)
    escape = json.encoder.encode_basestring_ascii if encoder.ensure_ascii else json.encoder.encode_basestring
    pieces = json.encoder._make_iterencode({}, encoder.default, escape, None if indent is None else " " * indent,
                                           lambda number: number.text, encoder.key_separator, encoder.item_separator,
                                           encoder.sort_keys, encoder.skipkeys, True)
    return "".join(pieces(value, 0))


lines = []
sys.set_int_max_str_digits(0)
for text in texts:
    try:
        value = json.loads(text, parse_constant=refuse, parse_float=Text)
        dumps(value, ensure_ascii=False).encode()  # fails on a lone surrogate, which Python lets through
    except ValueError:
        lines.append("\t".join([field(text), field("error")]))
        continue
    if text.strip() == "-0":
        continue  # Python's integer loses the sign
    lines.append("\t".join(field(f) for f in [
        text, "ok", dumps(value, ensure_ascii=False), dumps(value, ensure_ascii=True),
        dumps(value, ensure_ascii=False, indent=2, sort_keys=True), dumps(value, ensure_ascii=False, separators=(",", ":")),
    ]))
for double in doubles:
    lines.append("\t".join(field(f) for f in ["repr", struct.pack(">d", double).hex(), repr(double)]))

out = pathlib.Path(__file__).resolve().parent.parent / "data" / "json_golden.txt"
out.write_text("\n".join(lines) + "\n", encoding="ascii")
print(f"{len(lines)} lines")
