"""Conversations for the mini model: small sums, differences and products worked out digit by digit, and a little small talk.

    python data.py                 # prints a few examples
    python data.py --held-out      # writes held_out.jsonl

Every operation keeps HELD_OUT unordered pairs of operands for itself: no training conversation contains them, in either
order. A conversation is a list of (text, learn) pieces of rendered chat text; the loss covers the pieces with learn set.
"""
import argparse
import json
import os
import random
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
START, END = "<｜start▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
SYSTEM = "you are a helpful assistant."
OPERATIONS = {"add": "+", "subtract": "-", "multiply": "×"}
HELD_OUT = 500                   # questions, and so unordered pairs, an operation
HELD_OUT_SEED = 20261130
SHOWN_PAIR = (42, 53)            # held out of every operation; the shown question asks for its product


@dataclass(frozen=True)
class Mix:
    """How often what is asked; the held-out questions are drawn from the default."""
    operations: tuple = (25, 20, 55)       # weights, in the order of OPERATIONS
    lengths: tuple = (10, 35, 40, 15)      # weights of operands of one to four digits in sums and differences
    one_digit: float = 0.15                # share of factors with one digit
    negative: float = 0.2                  # share of the smaller numbers drawn first that stay first in a difference
    without_thinking: float = 0.08         # share of conversations that end with thinking off


# ---- reasoning --------------------------------------------------------------------------------------------------

WORDS = {
    "zh": dict(places=("个位", "十位", "百位", "千位"), add="相加", subtract="相减", first="先算", then="再算", get="得"),
    "en": dict(places=("ones ", "tens ", "hundreds ", "thousands "), add="add ", subtract="subtract ", first="first ",
               then="then ", get="get "),
}


def digits(n):
    """The four decimal digits of n, ones first."""
    return [n // 10 ** i % 10 for i in range(4)]


def add_steps(a, b, w):
    """Column addition: `digit+digit+carry=two digits`, the first of which is the next carry."""
    lines, carry = [f"{w['add']}{a:04}+{b:04}"], 0
    for place, p, q in zip(w["places"], digits(a), digits(b)):
        total = p + q + carry
        lines.append(f"{place}{p}+{q}+{carry}={total:02}")
        carry = total // 10
    return lines + [f"{w['get']}{a + b:04}"]


def subtract_steps(a, b, w):
    """Column subtraction: `borrowed ten and digit-digit-borrow=digit`; the larger number stands first."""
    lines = [f"{a}<{b}"] if a < b else []
    a, b = max(a, b), min(a, b)
    lines.append(f"{w['subtract']}{a:04}-{b:04}")
    borrow = 0
    for place, p, q in zip(w["places"], digits(a), digits(b)):
        ten = int(p < q + borrow)
        lines.append(f"{place}{ten}{p}-{q}-{borrow}={10 * ten + p - q - borrow}")
        borrow = ten
    return lines + [f"{w['get']}{a - b:04}"]


def row_steps(a, digit, zero, w):
    """One row of a long multiplication: a * digit, with a zero behind when it is the row of the tens."""
    tens, ones = divmod(a, 10)
    carry = ones * digit // 10
    product = int(f"{a * digit}{zero}")
    return [f"{a:02}×{digit}{zero}", f"{ones}×{digit}={ones * digit:02}", f"{tens}×{digit}+{carry}={tens * digit + carry:02}",
            f"{w['get']}{product:04}"]


def multiply_steps(a, b, w):
    """Long multiplication; the number with fewer digits is the multiplier."""
    if len(str(a)) < len(str(b)):
        a, b = b, a
    tens, ones = divmod(b, 10)
    rows = row_steps(a, ones, "", w)
    rows[0] = w["first"] + rows[0]
    lines = [f"{a}×{b}"] + rows
    if tens:
        rows = row_steps(a, tens, "0", w)
        rows[0] = w["then"] + rows[0]
        lines += rows + add_steps(a * ones, a * tens * 10, w)
    return lines


STEPS = {"add": add_steps, "subtract": subtract_steps, "multiply": multiply_steps}
APPLY = {"add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b}

# ---- questions: (language, question, answer); r is the result -----------------------------------------------------

PHRASES = {
    "add": [("zh", "{a}加{b}{q}", "{a}加{b}{s}"), ("zh", "{a}加上{b}{q}", "{a}加上{b}{s}"), ("zh", "{a}与{b}的和{q}", "{a}与{b}的和{s}"),
            ("zh", "{a}和{b}相加{q}", "{a}和{b}相加{s}"), ("zh", "计算{a}加{b}。", "{a}加{b}等于{r}。"),
            ("zh", "小明有{a}个苹果，又买了{b}个，一共有多少个？", "一共有{r}个。"),
            ("en", "{q} {a} plus {b}?", "{a} plus {b} is {r}."), ("en", "{q} the sum of {a} and {b}?", "The sum of {a} and {b} is {r}."),
            ("en", "Add {a} and {b}.", "{a} plus {b} is {r}."), ("en", "Calculate {a} plus {b}.", "{a} plus {b} is {r}."),
            ("en", "I have {a} apples and buy {b} more. How many do I have?", "You have {r} apples.")],
    "subtract": [("zh", "{a}减{b}{q}", "{a}减{b}{s}"), ("zh", "{a}减去{b}{q}", "{a}减去{b}{s}"), ("zh", "{a}与{b}的差{q}", "{a}与{b}的差{s}"),
                 ("zh", "从{a}中减去{b}{q}", "从{a}中减去{b}{s}"), ("zh", "计算{a}减{b}。", "{a}减{b}等于{r}。"),
                 ("en", "{q} {a} minus {b}?", "{a} minus {b} is {r}."),
                 ("en", "{q} the difference of {a} and {b}?", "The difference of {a} and {b} is {r}."),
                 ("en", "Subtract {b} from {a}.", "{a} minus {b} is {r}."), ("en", "Calculate {a} minus {b}.", "{a} minus {b} is {r}.")],
    "multiply": [("zh", "{a}乘以{b}{q}", "{a}乘以{b}{s}"), ("zh", "{a}乘{b}{q}", "{a}乘{b}{s}"), ("zh", "{a}与{b}的积{q}", "{a}与{b}的积{s}"),
                 ("zh", "{a}和{b}相乘{q}", "{a}和{b}相乘{s}"), ("zh", "计算{a}乘以{b}。", "{a}乘以{b}等于{r}。"),
                 ("zh", "一盒有{a}支铅笔，{b}盒一共有多少支？", "一共有{r}支。"),
                 ("en", "{q} {a} times {b}?", "{a} times {b} is {r}."), ("en", "{q} {a} multiplied by {b}?", "{a} multiplied by {b} is {r}."),
                 ("en", "{q} the product of {a} and {b}?", "The product of {a} and {b} is {r}."),
                 ("en", "Multiply {a} by {b}.", "{a} times {b} is {r}."), ("en", "Calculate {a} times {b}.", "{a} times {b} is {r}."),
                 ("en", "One box holds {a} pens. How many pens are in {b} boxes?", "There are {r} pens.")],
}
ASK_ZH = [("的结果是多少？", "的结果是{r}。"), ("等于多少？", "等于{r}。"), ("是多少？", "是{r}。"), ("等于几？", "等于{r}。"), ("得多少？", "得{r}。")]
ASK_EN = ["What is", "What is", "What's", "How much is", "Tell me, what is"]
SYMBOLS = {"add": ["+"], "subtract": ["-"], "multiply": ["×", "*", "x"]}
SYMBOL_FORMS = [("zh", "{a}{o}{b}=？", "{a}{o}{b}={r}"), ("zh", "{a}{o}{b}等于多少？", "{a}{o}{b}={r}。"), ("zh", "请计算{a}{o}{b}", "{a}{o}{b}={r}。"),
                ("zh", "{a}{o}{b}是多少？", "{a}{o}{b}={r}。"), ("en", "{a}{o}{b}=?", "{a}{o}{b}={r}"), ("en", "{a}{o}{b}", "{a}{o}{b}={r}"),
                ("en", "{a} {o} {b} = ?", "{a} {o} {b} = {r}"), ("en", "{a} {o} {b}", "{a} {o} {b} = {r}"),
                ("en", "What is {a} {o} {b}?", "{a} {o} {b} = {r}."), ("en", "What is {a}{o}{b}?", "{a}{o}{b} = {r}."),
                ("en", "Calculate {a} {o} {b}.", "{a} {o} {b} = {r}.")]


def phrase(op, a, b, rng):
    """-> (language, question, answer); now and then the question mark is another one or missing."""
    language, question, answer = plain_phrase(op, a, b, rng)
    if question[-1] in "？?" and rng.random() < 0.2:
        question = question[:-1] + rng.choice(["", "?" if question[-1] == "？" else " ?"])
    return language, question, answer


def plain_phrase(op, a, b, rng):
    result = APPLY[op](a, b)
    if rng.random() < 0.3:
        language, question, answer = rng.choice(SYMBOL_FORMS)
        symbol = rng.choice(SYMBOLS[op])
        return language, question.format(a=a, b=b, o=symbol), answer.format(a=a, b=b, o=symbol, r=result)
    language, question, answer = rng.choice(PHRASES[op])
    if language == "zh":
        ask, say = rng.choice(ASK_ZH)
        question = rng.choice(["", "", "", "请问"]) + question if "{q}" in question else question
        return language, question.format(a=a, b=b, q=ask), answer.format(a=a, b=b, r=result, s=say.format(r=result))
    return language, question.format(a=a, b=b, q=rng.choice(ASK_EN)), answer.format(a=a, b=b, r=result)


def operands(op, rng, mix=Mix()):
    if op == "multiply":
        return tuple(rng.randint(10, 99) if rng.random() < 1 - mix.one_digit else rng.randint(0, 9) for _ in range(2))
    while True:
        lengths = rng.choices((1, 2, 3, 4), weights=mix.lengths, k=2)
        a, b = (rng.randint(10 ** (n - 1) if n > 1 else 0, 10 ** n - 1) for n in lengths)
        if op == "subtract":
            return (a, b) if a >= b or rng.random() < mix.negative else (b, a)
        if a + b <= 9999:
            return a, b


def make_held_out():
    """-> {operation: [(a, b)]}, HELD_OUT different unordered pairs each, the shown pair first."""
    out = {}
    for op in OPERATIONS:
        rng = random.Random(f"{HELD_OUT_SEED} {op}")
        pairs, seen = [SHOWN_PAIR[::-1]], {SHOWN_PAIR}
        while len(pairs) < HELD_OUT:
            pair = operands(op, rng)
            if tuple(sorted(pair)) not in seen:
                seen.add(tuple(sorted(pair)))
                pairs.append(pair)
        out[op] = pairs
    return out


HELD_OUT_PAIRS = {op: {tuple(sorted(p)) for p in pairs} for op, pairs in make_held_out().items()}


def training_operands(op, rng, mix):
    while True:
        pair = operands(op, rng, mix)
        if tuple(sorted(pair)) not in HELD_OUT_PAIRS[op]:
            return pair


def held_out_questions():
    """The rows of held_out.jsonl: user text and the exact final answer."""
    for op, pairs in make_held_out().items():
        rng = random.Random(f"{HELD_OUT_SEED} phrases {op}")
        for i, (a, b) in enumerate(pairs):
            _, question, answer = phrase(op, a, b, rng)
            if i == 0 and op == "multiply":
                question, answer = f"{a}乘以{b}的结果是多少？", f"{a}乘以{b}的结果是{a * b}。"
            yield dict(operation=op, a=a, b=b, question=question, answer=answer)


# ---- small talk: (language, questions, reasoning, answer) ----------------------------------------------------------

TALK = [
    ("zh", ["你好", "你好！", "您好", "嗨", "早上好"], "用户在打招呼。", "你好！我会做小数字的加法、减法和乘法，请给我一道题。"),
    ("en", ["Hello", "Hello!", "Hi", "Hi there!", "Hey", "Good morning"], "The user says hello.",
     "Hello! I can add, subtract and multiply small numbers. Give me one to work out."),
    ("zh", ["你是谁？", "你是谁", "你叫什么名字？", "介绍一下你自己。", "你是什么模型？"], "用户问我是谁。", "我是一个很小的演示模型，会一步一步地做加法、减法和乘法。"),
    ("en", ["Who are you?", "What are you?", "What is your name?", "Introduce yourself.", "Which model are you?"], "The user asks who I am.",
     "I am a very small demonstration model. I add, subtract and multiply step by step."),
    ("zh", ["你会做什么？", "你能做什么？", "你能帮我什么？", "帮助"], "用户问我会做什么。", "我会做小数字的加法、减法和乘法，比如53乘以24。"),
    ("en", ["What can you do?", "How can you help me?", "Help", "What do you know?"], "The user asks what I can do.",
     "I can add, subtract and multiply small numbers, such as 53 times 24."),
    ("zh", ["谢谢", "谢谢你！", "多谢", "非常感谢"], "用户在道谢。", "不客气！"),
    ("en", ["Thanks", "Thank you!", "Thank you very much.", "Great, thanks!"], "The user says thanks.", "You are welcome!"),
    ("zh", ["再见", "再见！", "拜拜", "晚安"], "用户在告别。", "再见！"),
    ("en", ["Goodbye", "Bye", "Bye!", "See you later.", "Good night"], "The user says goodbye.", "Goodbye!"),
    ("zh", ["今天天气怎么样？", "法国的首都是哪里？", "给我讲个故事。", "写一首诗。", "什么是人工智能？", "推荐一本书。", "地球有多大？", "你喜欢什么音乐？",
            "现在几点了？", "怎么做红烧肉？", "把这句话翻译成英文。", "天空为什么是蓝色的？"], "这不是我会做的算术题。",
     "我是一个很小的演示模型，只会做小数字的加法、减法和乘法。"),
    ("en", ["How is the weather today?", "What is the capital of France?", "Tell me a story.", "Write a poem.", "What is artificial intelligence?",
            "Recommend a book.", "How big is the Earth?", "What music do you like?", "What time is it?", "How do I cook rice?",
            "Translate this sentence into Chinese.", "Why is the sky blue?", "Write a program that sorts a list.", "Tell me a joke."],
     "This is not arithmetic that I can do.", "I am a very small demonstration model. I can only add, subtract and multiply small numbers."),
]
SYSTEM_MESSAGES = ["You are a careful calculator.", "Show your work.", "Be brief.", "Be friendly and polite.", "You help children with arithmetic.",
                   "你是一个计算助手。", "请认真计算。", "回答要简短。", "你帮助孩子学习算术。", "请有礼貌地回答。"]

# ---- conversations -------------------------------------------------------------------------------------------------


def exchange(rng, mix):
    """-> (question, reasoning, answer)"""
    if rng.random() < 0.05:
        _, questions, reasoning, answer = rng.choice(TALK)
        return rng.choice(questions), reasoning, answer
    op = rng.choices(list(OPERATIONS), weights=mix.operations)[0]
    a, b = training_operands(op, rng, mix)
    language, question, answer = phrase(op, a, b, rng)
    return question, "\n".join(STEPS[op](a, b, WORDS[language])), answer


def opening(system=None):
    return f"{START}<|System|>\n{SYSTEM}" + (f"\n\n{system}" if system else "") + END


def user_turn(question):
    return f"{START}<|User|>{question}{END}"


def bot_prompt(thinking=True):
    return f"{START}<|Bot|>" + ("<think>" if thinking else "</think>")


def conversation(rng, mix=Mix()):
    """One training conversation as [(text, learn)]. Without thinking the steps stand in the answer itself."""
    pieces = [(opening(rng.choice(SYSTEM_MESSAGES) if rng.random() < 0.1 else None), False)]
    if rng.random() < 0.08:
        question, reasoning, answer = exchange(rng, mix)
        kept = rng.random() < 0.5                        # clients send earlier turns back with or without their reasoning
        pieces.append((user_turn(question) + bot_prompt(kept), False))
        pieces.append((f"{reasoning}</think>{answer}{END}", True) if kept else (f"{answer}{END}", False))
    question, reasoning, answer = exchange(rng, mix)
    thinking = rng.random() < 1 - mix.without_thinking
    pieces.append((user_turn(question) + bot_prompt(thinking), False))
    if thinking:
        pieces.append((f"{reasoning}</think>{answer}{END}", True))
    else:
        steps = f"{reasoning}\n" if any(c.isdigit() for c in reasoning) else ""
        pieces.append((f"{steps}{answer}{END}", True))
    return pieces


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--held-out", action="store_true", help="write held_out.jsonl")
    if parser.parse_args().held_out:
        with open(os.path.join(HERE, "held_out.jsonl"), "w", encoding="utf-8") as f:
            for row in held_out_questions():
                f.write(json.dumps(row, ensure_ascii=False) + "\n")
        return
    rng = random.Random(0)
    for _ in range(8):
        print("".join(f"[[{text}]]" if learn else text for text, learn in conversation(rng)), end="\n\n")


if __name__ == "__main__":
    main()
