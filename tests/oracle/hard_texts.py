"""Texts that tokenizers get wrong: every script, joiners, combining marks, line ends, blanks, digits, markers, invalid UTF-8."""
import random
import unicodedata

BLANKS = [" ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", "\r\r\n", "\u00a0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f",
          "\u205f", "\u3000", "\x0b", "\x0c", "\x85", "\u180e", "\u200b", "\ufeff", "\x1c", "\x00"]
WORDS = ["the", "The", "HELLO", "don't", "we'll", "I'M", "it's", "naïve", "Straße", "x", "tokenization", "antidisestablishmentarianism",
         "世界", "你好", "中文分词", "我是一个语言模型", "今天天气很好", "日本語テスト", "ひらがな", "カタカナ", "ー", "한국어", "ㄱㄴ", "Привет", "Ένα",
         "مرحبا", "בעולם", "हिन्दी", "ภาษาไทย", "ქართული", "Հայերեն", "አማርኛ", "தமிழ்", "bánh mì", "ǅ", "ﬁne", "ſ", "K", "Ⅻ", "ª", "ß", "ẞ",
         "𝕳𝖊𝖑𝖑𝖔", "𠀀𠀁", "㐀", "豈", "々", "〆", "〇", "龥", "龦", "鿿", "゠", "ヿ", "ㇰ", "〜", "・"]
NUMBERS = ["0", "7", "12", "123", "1234", "1234567890", "3.14159", "1,000,000", "0x1F", "1e-6", "٣٤٥", "१२३४", "１２３", "Ⅷ", "½", "²³", "①②③",
           "㊿", "一二三", "𝟘𝟙𝟚𝟛", "๑๒๓", "༢༣", "𑷠𑷡", "\U00011de0\U00011de9", "\U00016ff4", "𒐀", "〡〢", "৴", "௰"]
SYMBOLS = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") + ["...", "—", "“", "”", "«", "…", "。", "，", "、", "！", "（", "）", "€", "₿", "±", "√", "→",
           "==>", "!=", "&&", "||", "://", "/**/", "</", "/>", "$$", "```", "# ", "- ", "* ", "|---|", "°", "§", "¿", "‰", "\u00ad", "₹"]
EMOJI = ["😀", "👍🏽", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇨🇳🇨", "❤️", "☺", "1️⃣", "#️⃣", "🧑🏿‍🚀", "\u200d", "\ufe0f", "🏴\U000e0067\U000e0062\U000e007f"]
MARKS = ["\u0301", "\u0308", "\u20dd", "\u0e31", "\u093f", "\u05b0", "\u064e", "\u3099", "e\u0301", "o\u0308\u0323", "\u0903", "\u0488", "Z̷a̸l̶g̴o̵"]
MARKERS = ["<｜start▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>", "<think>", "</think>", "<unk>",
           "<|System|>", "<|User|>", "<|Bot|>", "<｜User｜>", "<｜Assistant｜>", "<|EOT|>", "<tool_call>", "</tool_call>", "<arg_key>",
           "<｜tool▁calls▁begin｜>", "<｜fim▁hole｜>", "<｜place▁holder▁no▁7｜>", "<｜place▁holder▁no▁77｜>", "<", "<|", "<｜", "<thi", "think>",
           "<｜end▁of▁sentence", "｜>", "<<think>>", "<think><think>", "<|User", "▁"]
CODE = ["def main(args):\n    for i in range(10):\n\tprint(i)\n", "#include <vector>\nint main() { return 0; }\n", "SELECT * FROM t WHERE a='b';",
        "{\"key\": [1, 2.5, null, true], \"s\": \"\\u00e9\\n\"}", "<div class=\"x\">&nbsp;</div>", "x_y_z = self.__init__(**kw)", "\t\t\tif (a&&b)",
        "https://example.com/a?b=c&d=%20e#f", "C:\\Users\\name", "a->b::c<d>()", "\\frac{1}{2}", "| a | b |\n|---|---|\n| 1 | 2 |\n", "let x=()=>{};"]
INVALID = [b"\xff", b"\xc3", b"\xe4\xbd", b"\xf0\x9f\x98", b"\x80", b"\xc0\xaf", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf8\x88",
           b"\xe2\x28\xa1", b"\xf0\x28\x8c\x28", b"\xc3\xc3\xa9"]

# For other families than Spark's and DeepSeek's: their markers, and what normalization changes.
OTHER_MARKERS = ["<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|reserved_special_token_7|>", "<|im_start|>", "<|im_end|>", "<|endoftext|>",
                 "<|endofprompt|>", "<|start|>", "<|channel|>", "<|message|>", "<|return|>", "<|vision_start|>", "<|fim_prefix|>", "<tool_response>",
                 "<|im_start", "|>", "<|reserved_200000|>", "<|box_start|>"]
NORMALIZING = ["\u1112\u1161\u11ab", "\u1100\u1161", "\uac00\u11a8", "\uac01\u11a8", "\u212b", "\u2126", "\u0344", "\u0958", "\u0f73", "\u0f71\u0f72",
               "e\u0323\u0302", "e\u0302\u0323", "a\u0328\u0301", "\u0915\u093c", "\u09c7\u09be", "\u0dd9\u0dcf\u0dca", "\u30cf\u309a", "\u1e9b\u0323",
               "\ufb01", "\ufb2c", "\ufdfa", "\u2460", "\u33a1", "\uff76\uff9e", "\U0001d15f", "\U0002f800", "\U00011099\U000110ba", "\u1b05\u1b35",
               "\u0301", "\u0327\u0301", "\u0345\u0314", "\u1dfa\u0301", "A\u030a", "\u2adc", "\U0001e4ec\u0301", "\u00c5\u0301", "\u1100\u1100\u1161"]


def random_character(rng):
    while True:
        plane = rng.random()
        c = (rng.randrange(0x80) if plane < 0.1 else rng.randrange(0x3000) if plane < 0.5 else
             rng.randrange(0x3000, 0x10000) if plane < 0.8 else rng.randrange(0x10000, 0x20000) if plane < 0.97 else
             rng.randrange(0x20000, 0x110000))
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def every_character():
    """Each assigned character between letters, digits and blanks, and doubled; a thousand lines of many characters."""
    assigned = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cs", "Co", "Cn")]
    assigned = [c for c in assigned if not ("㐀" < c < "鿿" or "가" < c < "힣" or "𠀀" < c < "𲎯")] + list("㐂丁龥龦鿼각힢𠀂")
    assigned += [chr(c) for c in (0xE000, 0xF8FF, 0xFFFE, 0xFFFF, 0x10FFFF, 0x378, 0x11DE0, 0x11DE9, 0x16FF4, 0x1FFFE)]
    for c in assigned:
        yield f"{c}a {c}{c}1{c} \n{c}"


def mixtures(rng, count, more=()):
    groups = [BLANKS, WORDS, NUMBERS, SYMBOLS, EMOJI, MARKS, MARKERS, CODE, *more]
    for _ in range(count):
        flavour = rng.random()
        if flavour < 0.15:
            yield "".join(random_character(rng) for _ in range(rng.randint(1, 30)))
        elif flavour < 0.25:
            piece = rng.choice(rng.choice(groups))
            yield piece * rng.randint(1, 200) + rng.choice(rng.choice(groups))
        elif flavour < 0.35:
            yield "".join(rng.choice(BLANKS) for _ in range(rng.randint(1, 12))) + rng.choice(WORDS) + "".join(
                rng.choice(BLANKS) for _ in range(rng.randint(0, 6)))
        else:
            parts = []
            for _ in range(rng.randint(1, 14)):
                parts.append(rng.choice(rng.choice(groups)))
                if rng.random() < 0.4:
                    parts.append(" ")
            yield "".join(parts)


def hard_texts(count, seed=1, more=()):
    """Byte strings; at least `count`."""
    rng = random.Random(seed)
    texts = [b""] + [text.encode() for text in every_character()]
    texts += [text.encode() for text in mixtures(rng, max(1000, count - len(texts)), more)]
    for _ in range(2000):  # bytes in the middle of things
        data = bytearray("".join(mixtures(rng, 1)).encode())
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(0, len(data))
            data[at:at + rng.randint(0, 1)] = rng.choice(INVALID)
        texts.append(bytes(data))
    for character in ["a", " ", "\n", "的", "1", "!", "😀", "\u0301", "=", "\r\n", "é", "<", "aB", "ab "]:
        texts.append((character * 1_000_000)[:1_000_000].encode())
    return texts
