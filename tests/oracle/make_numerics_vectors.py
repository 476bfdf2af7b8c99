"""Writes tests/data/numerics.json: what every rule of docs/numerics.md that is built gives, to the bit.

The sums are done here from the text of the rules alone: a fused multiply-add is done in integers and rounded once; a
single +, -, *, / or square root is NumPy's in float32, which IEEE 754 defines. Arrays are written as one string of
hexadecimal bit patterns, eight digits a float.

usage: python tests/oracle/make_numerics_vectors.py      (needs numpy, ml_dtypes, mpmath)
"""

import json
import pathlib
import struct

import ml_dtypes
import mpmath
import numpy as np

f32 = np.float32
INF = f32(np.inf)
np.seterr(all="ignore")
random = np.random.default_rng(20)


# Exact arithmetic on float32

def parts(x):
    """x = m * 2^e with an integer m."""
    bits = int(f32(x).view(np.uint32))
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    m, e = (fraction, -149) if exponent == 0 else (fraction | 0x800000, exponent - 150)
    return (-m if bits >> 31 else m), e


def rounded(m, e):
    """The float32 nearest to m * 2^e, ties to even; m is not 0."""
    sign, m = m < 0, abs(m)
    shift = max(m.bit_length() - 24, -149 - e)  # bits to drop
    if shift > 0:
        kept, rest, half = m >> shift, m & ((1 << shift) - 1), 1 << (shift - 1)
        m, e = kept + (rest > half or (rest == half and kept & 1)), e + shift
    value = float(m) * 2.0**e if m.bit_length() + e <= 128 else float("inf")
    return f32(-value if sign else value)


def fma(a, b, c):
    a, b, c = f32(a), f32(b), f32(c)
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return f32(float(a) * float(b) + float(c))
    (ma, ea), (mb, eb), (mc, ec) = parts(a), parts(b), parts(c)
    m, e = ma * mb, ea + eb
    low = min(e, ec)
    total = (m << (e - low)) + (mc << (ec - low))
    if total == 0:
        return f32(a * b) + c if m == 0 else f32(0)  # zeros add by their signs; x - x is +0
    return rounded(total, low)


# Elementary functions (docs/numerics.md, Elementary functions)

def coefficients(text):
    return [f32(float.fromhex(t)) for t in text.split()]


def polynomial(c, x):
    result = c[-1]
    for a in reversed(c[:-1]):
        result = fma(result, x, a)
    return result


EXP = coefficients("0x1.fffffcp-2 0x1.555492p-3 0x1.5558f2p-5 0x1.1239f8p-7 0x1.6a240ep-10")
LOG = coefficients("0x1.555548p-2 -0x1.000006p-2 0x1.99a4b6p-3 -0x1.555c4ep-3 0x1.233768p-3 -0x1.fc2208p-4 0x1.e6f068p-4 -0x1.de3c1ap-4 0x1.1457b4p-4")
ERF_SMALL = coefficients("0x1.06eba8p-3 -0x1.812744p-2 0x1.ce2e2p-4 -0x1.b8107cp-6 0x1.54dad8p-8 -0x1.aae988p-11 0x1.5f1146p-14")
ERF_LARGE = coefficients("-0x1.a06d5ap-13 -0x1.20ae92p0 -0x1.463f6p-1 -0x1.a9a1cp-4 0x1.6c06fp-6 -0x1.8e9a26p-9 0x1.9a74bep-13")
LN2_HIGH, LN2_LOW = f32(float.fromhex("0x1.62e4p-1")), f32(float.fromhex("0x1.7f7d1cp-20"))


def exp_parts(x):
    """t and h, n - h of exp(x) = (1 + t) 2^n."""
    x = max(min(f32(x), f32(89)), f32(-104))
    log2e, shifter = f32(float.fromhex("0x1.715476p0")), f32(float.fromhex("0x1.8p23"))
    n = fma(x, log2e, shifter) - shifter
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    half = int(n) >> 1
    return fma(r * r, polynomial(EXP, r), r), half, int(n) - half


def scaled(x, first, second):
    return f32(x * f32(2.0**first)) * f32(2.0**second)


def exp(x):
    t, first, second = exp_parts(x)
    return scaled(f32(1) + t, first, second)


def erf(x):
    x = f32(x)
    t = abs(x)
    if t < f32(0.921875):
        result = fma(t, polynomial(ERF_SMALL, t * t), t)
    else:
        result = f32(1) - exp(polynomial(ERF_LARGE, min(t, f32(4))))
    return np.copysign(result, x)


def sigmoid(x):
    x = f32(x)
    t, first, second = exp_parts(-abs(x))
    high = f32(1) + t
    low = t - (high - f32(1))
    e = scaled(high, first, second)
    d = f32(1) + e
    rest = (e - (d - f32(1))) + scaled(low, first, second)
    a, b = (high, low) if x < 0 else (f32(1), f32(0))
    inverse = f32(1) / d
    q = a * inverse
    remainder = fma(-q, d, a) + fma(-q, rest, b)
    y = fma(remainder, inverse, q)
    return scaled(y, first, second) if x < 0 else y


def log(x):
    x = f32(x)
    if x == 0:
        return -INF
    m, e = np.frexp(x)  # x = m 2^e, m in [1/2, 1)
    if f32(m) < f32(float.fromhex("0x1.6a09e6p-1")):
        m, e = f32(m) * f32(2), e - 1
    n, f = f32(e), f32(m) - f32(1)
    square = f * f
    tail = fma(square * f, polynomial(LOG, f), n * LN2_LOW)
    tail = fma(f32(-0.5), square, tail)
    return fma(n, LN2_HIGH, f + tail)


# Rules

def chain(pairs):
    s = f32(0)
    for a, b in pairs:
        s = fma(a, b, s)
    return s


def tree(partial):
    p = list(partial)
    for h in (8, 4, 2, 1):
        for j in range(h):
            p[j] = p[j] + p[j + h]
    return p[0]


def dot(w, x, bias):
    blocks = [chain(zip(w[k:k + 1024], x[k:k + 1024])) for k in range(0, len(w), 1024)]
    total = blocks[0]
    for s in blocks[1:]:
        total = total + s
    return total + (f32(0) if bias is None else bias)


def rms_norm(x, weight, eps):
    p = [f32(0)] * 16
    for k, v in enumerate(x):
        p[k % 16] = fma(v, v, p[k % 16])
    r = f32(1) / np.sqrt(tree(p) / f32(len(x)) + eps)
    return [(v * r) * g for v, g in zip(x, weight)]


def rope(head, cos, sin):
    half = len(cos)
    out = list(head)
    for i in range(half):
        a, b, c, s = head[i], head[i + half], cos[i], sin[i]
        out[i], out[i + half] = fma(a, c, -(b * s)), fma(b, c, a * s)
    return out


def gelu_mul(g, u):
    return [((f32(0.5) * a) * (f32(1) + erf(a * f32(0.70710678)))) * b for a, b in zip(g, u)]


def coded_score(q, k):
    """Rule 10: a query and a key, both float32."""
    q_codes, s_q = code_activations(q, 64)
    k_codes, s_k = code_activations(k, 64)
    score = f32(0)
    for g, begin in enumerate(range(0, len(q), 64)):
        d = sum(a * b for a, b in zip(q_codes[begin:begin + 64], k_codes[begin:begin + 64]))
        score = fma(s_k[g], s_q[g] * f32(d), score)
    return score


def coded_output(p, values):
    """Rule 10: values are float32, in key order."""
    rows = [code_activations(v, 64) for v in values]
    return [chain((pk * scales[c // 64], f32(codes[c])) for pk, (codes, scales) in zip(p, rows))
            for c in range(len(values[0]))]


def attention_row(q, keys, values, first, end, scale, gate, coded=False):
    """One query over visible positions [first, end), span by span; also the state before the division."""
    state = None
    for start in range(0, len(keys), 512):
        visible = [k for k in range(start, min(start + 512, len(keys))) if first <= k < end]
        if not visible:
            continue
        scores = [(coded_score(q, keys[k]) if coded else chain(zip(q, keys[k]))) * scale for k in visible]
        m = max(scores)
        p = [exp(s - m) for s in scores]
        partial = [f32(0)] * 16
        for k, v in zip(visible, p):
            partial[k % 16] = partial[k % 16] + v
        l = tree(partial)
        if coded:
            o = coded_output(p, [values[k] for k in visible])
        else:
            o = [chain((pk, values[k][c]) for k, pk in zip(visible, p)) for c in range(len(q))]
        if state is None:
            state = (m, l, o)
            continue
        M, L, O = state
        new = max(M, m)
        alpha, beta = exp(M - new), exp(m - new)
        state = (new, fma(L, alpha, l * beta), [fma(a, alpha, b * beta) for a, b in zip(O, o)])
    M, L, O = state
    g = sigmoid(gate)
    return [(a / L) * g for a in O]


def exp_sum(logits, maximum):
    terms = [exp(x - maximum) for x in logits]
    partial = [f32(0)] * 16
    for i, t in enumerate(terms):
        partial[i % 16] = partial[i % 16] + t
    return terms, tree(partial)


def code_activations(x, group):
    """Rule 2: codes of all x, and one scale for each group."""
    codes, scales = [], []
    for begin in range(0, len(x), group):
        part = x[begin:begin + group]
        amax = (np.asarray(part, f32).view(np.uint32) & 0x7FFFFFFF).max().view(f32)
        if not np.isfinite(amax):
            scales.append(f32(np.nan))
            codes += [0] * len(part)
        elif amax < f32(2.0**-100):
            scales.append(f32(0))
            codes += [0] * len(part)
        else:
            factor = f32(127) / amax
            scales.append(amax / f32(127))
            codes += [int(np.rint(f32(v) * factor)) for v in part]
    return codes, scales


def affine_dot(c, s, b, group, x, x_group, bias):
    """Rule 3: one row of codes c with a scale and a bias for each group, one token."""
    q, s_a = code_activations(x, x_group)
    total = None
    for block in range(0, len(c), 1024):
        block_end = min(block + 1024, len(c))
        acc = f32(0)
        for begin in range(block, block_end, group):
            end = min(begin + group, block_end)
            t = None
            k = begin
            while k < end:  # a run ends where a group of either does
                run = range(k, min(end, (k // x_group + 1) * x_group))
                d = f32(sum(q[i] * c[i] for i in run))
                term = s_a[k // x_group] * f32(sum(q[i] for i in run))
                acc = fma(s[begin // group], s_a[k // x_group] * d, acc)
                t = term if t is None else t + term
                k = run.stop
            acc = fma(b[begin // group], t, acc)
        total = acc if total is None else total + acc
    return total + (f32(0) if bias is None else bias)


def affine_decoded(c, s, b, group):
    """Rule 4."""
    return [fma(s[k // group], f32(code), b[k // group]) for k, code in enumerate(c)]


def runs(c, group, x_group):
    """(block, first column, end) of every run: it ends where a group of either does, and where a block does."""
    for block in range(0, len(c), 1024):
        k, block_end = block, min(block + 1024, len(c))
        while k < block_end:
            end = min(block_end, (k // x_group + 1) * x_group, (k // group + 1) * group)
            yield block, k, end
            k = end


def added(blocks):
    total = None
    for acc in blocks.values():
        total = acc if total is None else total + acc
    return total


def zero_point_dot(c, s, z, group, x, x_group, bias):
    """Rule 3: one row of codes c with a scale and a zero for each group, one token."""
    q, s_a = code_activations(x, x_group)
    blocks = {}
    for block, k, end in runs(c, group, x_group):
        d, q_sum = sum(q[i] * c[i] for i in range(k, end)), sum(q[k:end])
        i = d - z[k // group] * q_sum
        blocks[block] = fma(s[k // group], s_a[k // x_group] * f32(i), blocks.get(block, f32(0)))
    return added(blocks) + (f32(0) if bias is None else bias)


def row_scale_dot(c, s, z, b, x, x_group, bias):
    """Rule 3 with one scale a row: a zero z, or a bias b."""
    q, s_a = code_activations(x, x_group)
    blocks, s_blocks = {}, {}
    for block, k, end in runs(c, len(c), x_group):
        d, q_sum = sum(q[i] * c[i] for i in range(k, end)), sum(q[k:end])
        i = d if b is not None else d - z * q_sum
        blocks[block] = fma(s_a[k // x_group], f32(i), blocks.get(block, f32(0)))
        s_blocks[block] = fma(s_a[k // x_group], f32(q_sum), s_blocks.get(block, f32(0)))
    y = s * added(blocks)
    if b is not None:
        y = fma(b, added(s_blocks), y)
    return y + (f32(0) if bias is None else bias)


def two_level_dot(v, sub, sc, m, d, dmin, x, bias):
    """Rule 3 with two levels: values v less their zero, sub-scales sc and minima m (or None) of `sub` columns each."""
    q, s_a = code_activations(x, 64)
    blocks = {}
    for block, k, end in runs(v, 256, 64):
        acc, js = blocks.get(block, f32(0)), range(k // sub, end // sub)
        columns = lambda j: range(j * sub, j * sub + sub)
        i = sum(int(sc[j]) * sum(q[n] * int(v[n]) for n in columns(j)) for j in js)
        acc = fma(d[k // 256], s_a[k // 64] * f32(i), acc)
        if m is not None:
            i = sum(int(m[j]) * sum(q[n] for n in columns(j)) for j in js)
            acc = fma(-dmin[k // 256], s_a[k // 64] * f32(i), acc)
        blocks[block] = acc
    return added(blocks) + (f32(0) if bias is None else bias)


def two_level_decoded(v, sub, sc, m, d, dmin):
    """Rule 4."""
    scale = lambda k: d[k // 256] * f32(sc[k // sub])
    if m is None:
        return [scale(k) * f32(value) for k, value in enumerate(v)]
    return [fma(scale(k), f32(value), -(dmin[k // 256] * f32(m[k // sub]))) for k, value in enumerate(v)]


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = mantissa * 2.0**-9 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return f32(-magnitude if code >> 7 else magnitude)


E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]  # its -0 is 0
IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]


def code_token(x):
    """Rule 5: codes of one token, and their scale."""
    amax = (np.asarray(x, f32).view(np.uint32) & 0x7FFFFFFF).max().view(f32)
    s = amax / f32(127.5) if np.isfinite(amax) else f32(np.nan)
    if not s > 0:
        return [0] * len(x), s
    return [int(np.clip(np.rint(f32(v) / s), -128, 127)) for v in x], s


def w8a8_dot(c, s_w, x, bias):
    """Rule 5: one row of signed codes."""
    q, s = code_token(x)
    d = sum(int(a) * int(b) for a, b in zip(q, c))
    return f32(d) * (s * s_w) + (f32(0) if bias is None else bias)


# Writing

def bits(values):
    return "".join(f"{int(v):08x}" for v in np.asarray(values, f32).reshape(-1).view(np.uint32))


def normal(*shape):
    return random.standard_normal(shape).astype(f32)


def wild(*shape):
    """Floats of any size, all signs, with zeros and denormals among them."""
    x = random.standard_normal(shape) * 2.0 ** random.integers(-60, 60, shape)
    x = x.astype(f32)
    kind = random.integers(0, 12, shape)
    x[kind == 0] = 0
    x[kind == 1] = -0.0
    x[kind == 2] = (x * f32(2.0**-140))[kind == 2]
    return x


def as_kind(x, kind):
    return x.astype({"float32": f32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}[kind]).astype(f32)


def rounding_cases():
    x = np.concatenate([
        wild(200), normal(50) * f32(2.0**-14), normal(50) * f32(2.0**-24),
        np.array([0, -0.0, 65504, 65519.996, 65520, -65520, 3.4e38, -3.4e38, 2.0**-24, 2.0**-25, 2.0**-26, 1.5 * 2.0**-24,
                  2.0**-14, 2.0**-14 - 2.0**-25, np.inf, -np.inf, 1e-45, -1e-45], f32),
        # ties: halfway between two bfloat16, between two float16
        np.array([0x3F808000, 0x3F818000, 0xBF808000, 0x7F7F8000, 0x00008000, 0x00018000, 0x3F801000, 0x3F803000,
                  0x3F80FFFF, 0x3F807FFF, 0x38001000, 0x33000001], np.uint32).view(f32),
    ])
    return {"input": bits(x), "bfloat16": bits(as_kind(x, "bfloat16")), "float16": bits(as_kind(x, "float16"))}


def dot_cases():
    cases = []
    shapes = [("float32", 1), ("bfloat16", 1), ("float16", 1), ("float32", 7), ("bfloat16", 7), ("float16", 6),
              ("float32", 1023), ("bfloat16", 1024), ("float16", 1025), ("float32", 2049), ("bfloat16", 2051)]
    for i, (kind, columns) in enumerate(shapes):
        make = wild if columns < 10 else normal
        rows, tokens = (5, 3) if columns < 10 else (2, 2)
        w, x = as_kind(make(rows, columns), kind), make(tokens, columns)
        if kind == "float16" and columns < 10:
            w = as_kind(normal(rows, columns), kind)
        bias = None if i % 2 else normal(rows)
        cases.append((kind, w, x, bias))
    tiny = f32(2.0**-100)
    # A sum that is -0, with no bias, with a bias of -0, and with one of +0.
    for kind in ("float32", "bfloat16"):
        for bias in (None, [-0.0], [0.0]):
            cases.append((kind, np.array([[-tiny]], f32), np.array([[tiny]], f32),
                          None if bias is None else np.array(bias, f32)))
    # Denormal products count.
    cases.append(("float32", np.array([[2.0**-75] * 4], f32), np.array([[2.0**-74] * 4], f32), None))
    # The order inside a block, and the blocks: 2^30 comes and goes before the small ones in block one, and between
    # blocks nothing is carried over.
    w = np.full((1, 1100), 0.25, f32)
    w[0, 0], w[0, 3], w[0, 1024], w[0, 1025] = 2.0**30, -(2.0**30), 2.0**30, -(2.0**30)
    cases.append(("float32", w, np.ones((1, 1100), f32), None))
    out = []
    for kind, w, x, bias in cases:
        y = [[dot(w[r], t, None if bias is None else bias[r]) for r in range(len(w))] for t in x]
        out.append({"kind": kind, "rows": len(w), "columns": w.shape[1], "tokens": len(x), "weights": bits(w), "x": bits(x),
                    "bias": None if bias is None else bits(bias), "y": bits(y)})
    return out


def norm_cases():
    out = []
    for n, make, eps in ((1, normal, 1e-6), (15, normal, 1e-6), (16, normal, 1e-5), (33, normal, 1e-6), (96, normal, 1e-6),
                         (64, lambda n: normal(n) * f32(1e-22), 1e-6), (20, lambda n: np.zeros(n, f32), 1e-6),
                         (48, lambda n: normal(n) * f32(1e15), 1e-6)):
        x, weight = make(n), normal(n)
        out.append({"x": bits(x), "weight": bits(weight), "eps": bits([eps]), "y": bits(rms_norm(x, weight, f32(eps)))})
    return out


def rope_cases():
    mpmath.mp.dps = 60
    angles = [0.0, 1.0, 0.5, -3.0, 100.0, 1048575.0, 2097151.75, 1e-9, 0.7853981633974483, 1.5707963267948966,
              3.141592653589793, 355.0, 103993.0, 1048574.9]
    angles += list(random.uniform(-2.0**21, 2.0**21, 200)) + list(random.uniform(-10, 10, 100))
    # The doubles nearest to multiples of pi/2, where cancellation is worst.
    angles += [float(mpmath.pi / 2 * n) for n in (2, 3, 4, 5, 1000, 99999, 1335087)]
    table = {"angles": "".join(struct.pack(">d", a).hex() for a in angles),
             "cos": bits([float(mpmath.cos(mpmath.mpf(a))) for a in angles]),
             "sin": bits([float(mpmath.sin(mpmath.mpf(a))) for a in angles])}
    cases = []
    for head_dim, rotary_dims in ((8, 2), (8, 8), (24, 6), (32, 32), (40, 36), (64, 16)):
        head = normal(head_dim)
        angle = random.uniform(-10, 10, rotary_dims // 2)
        cos, sin = np.cos(angle).astype(f32), np.sin(angle).astype(f32)
        cases.append({"head": bits(head), "cos": bits(cos), "sin": bits(sin), "y": bits(rope(head, cos, sin))})
    return table, cases


def function_cases():
    x = np.concatenate([normal(60), normal(60) * f32(10), normal(60) * f32(40),
                        np.array([0, -0.0, 0.921875, np.nextafter(f32(0.921875), f32(0)), -0.921875, 3.9, 4, 5, 88.72284, 88.73,
                                  -87.3365, -87.34, -95, -103.9, -103.98, -104.5, -200, 1e-30, -1e-40, 1e-45, 200], f32)])
    positive = np.concatenate([abs(wild(60)), abs(normal(60)) + f32(1e-3),
                               np.array([1, np.nextafter(f32(1), f32(2)), np.nextafter(f32(1), f32(0)), 0.70710677, 0.7071068,
                                         1.4142135, 1.4142137, 1e-45, 1e-40, 3.4e38, 2, 0.5], f32)])
    return {"x": bits(x), "exp": bits([exp(v) for v in x]), "erf": bits([erf(v) for v in x]),
            "sigmoid": bits([sigmoid(v) for v in x]), "positive": bits(positive), "log": bits([log(v) for v in positive])}


def gelu_cases():
    gate, up = np.concatenate([normal(37) * f32(2), [0, -0.0, 10, -10, 1e-40]]).astype(f32), normal(42)
    return {"gate": bits(gate), "up": bits(up), "y": bits(gelu_mul(gate, up))}


def attention_cases():
    out = []
    # (kv, head_dim, keys, [(first, end)]): part of a span, a window, several spans, a span without a visible key
    for kv, head_dim, count, ranges, size in (
            ("float32", 6, 5, [(0, 5), (2, 3), (0, 1)], 1), ("bfloat16", 20, 70, [(0, 70), (60, 70), (7, 66)], 1),
            ("float32", 4, 1030, [(0, 1030), (500, 520), (513, 1030), (1024, 1030), (511, 1025)], 3),
            ("bfloat16", 6, 600, [(0, 600), (89, 600), (512, 513), (0, 512)], 5)):
        q = normal(len(ranges), head_dim) * f32(size)
        k, v = normal(count, head_dim), normal(count, head_dim)
        gate = normal(len(ranges))
        scale = f32(1) / np.sqrt(f32(head_dim))
        rk, rv = as_kind(k, kv), as_kind(v, kv)
        y = [attention_row(q[r], rk, rv, *ranges[r], scale, gate[r]) for r in range(len(ranges))]
        out.append({"kv": kv, "head_dim": head_dim, "positions": count, "first": [r[0] for r in ranges],
                    "end": [r[1] for r in ranges], "scale": bits([scale]), "queries": bits(q), "keys": bits(k),
                    "values": bits(v), "gate": bits(gate), "y": bits(y)})
    return out


def coded_attention_cases():
    """Rule 10. Numbers of its own, so that other cases do not change them."""
    rng = np.random.default_rng(10)
    out = []
    # A part of a span; a short last group; three groups, the last one of 2 channels; several spans and windows.
    for head_dim, count, ranges, size in (
            (6, 5, [(0, 5), (2, 3), (0, 1)], 1), (64, 40, [(0, 40), (30, 40), (7, 19)], 1),
            (72, 33, [(0, 33), (16, 33)], 2), (130, 20, [(0, 20), (3, 18)], 3),
            (6, 1030, [(0, 1030), (500, 520), (1024, 1030)], 3)):
        draw = lambda *shape: rng.standard_normal(shape).astype(f32)
        q, k, v = draw(len(ranges), head_dim) * f32(size), draw(count, head_dim), draw(count, head_dim)
        k[0] = 0  # scales of 0
        v[1] = f32(2.0**-110)
        k[2, :2] = k[2].max() * f32(50)  # one channel that leaves the others few steps
        v[3] *= f32(16)
        k[4] = f32(-3)  # codes of -127 and, against a query of the same kind, the largest sums
        q[0, :] = np.where(np.arange(head_dim) % 2, q[0], np.abs(q[0]).max())
        gate, scale = draw(len(ranges)), f32(1) / np.sqrt(f32(head_dim))
        y = [attention_row(q[r], k, v, *ranges[r], scale, gate[r], coded=True) for r in range(len(ranges))]
        out.append({"kv": "int8", "head_dim": head_dim, "positions": count, "first": [r[0] for r in ranges],
                    "end": [r[1] for r in ranges], "scale": bits([scale]), "queries": bits(q), "keys": bits(k),
                    "values": bits(v), "gate": bits(gate), "y": bits(y)})
    return out


def exp_sum_cases():
    out = []
    for n in (1, 15, 16, 37, 100):
        logits = normal(n) * f32(4)
        if n > 20:
            logits[3] = -np.inf
        terms, total = exp_sum(logits, logits.max())
        out.append({"logits": bits(logits), "max": bits([logits.max()]), "terms": bits(terms), "sum": bits([total])})
    return out


def code_cases():
    out = []
    rows = [normal(1), normal(63), normal(64), normal(65), normal(130), wild(200), np.zeros(70, f32), np.full(40, -0.0, f32),
            np.full(64, -3.0, f32), np.full(33, 2.0**-100, f32), np.full(64, np.nextafter(f32(2.0**-100), f32(0)), f32),
            np.array([3.4028235e38, -3.4028235e38, 1.7e38, 0, 1e-45], f32),
            # ties: x * 127 / amax falls halfway
            np.array([127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 63.5, 126.5, -126.5], f32),
            np.concatenate([normal(70), [np.inf], normal(30), [np.nan], normal(60)]).astype(f32),
            np.concatenate([[-np.inf], normal(95)]).astype(f32), np.array([np.nan], f32)]
    for x in rows:
        for group in (64, 32):
            codes, scales = code_activations(x, group)
            out.append({"x": bits(x), "group": group, "codes": "".join(f"{q & 255:02x}" for q in codes),
                        "scales": bits(scales)})
    return out


def affine_cases():
    out = []
    for i, (code_bits, group, scale_kind, columns) in enumerate((
            (4, 64, "bfloat16", 64), (4, 32, "bfloat16", 96), (4, 128, "bfloat16", 200), (4, 64, "float16", 130),
            (4, 32, "float32", 40), (4, 64, "bfloat16", 1152), (4, 128, "float32", 1100), (4, 32, "float16", 1060),
            (8, 64, "bfloat16", 64), (8, 32, "bfloat16", 70), (8, 128, "float16", 200), (8, 64, "float32", 1152),
            (8, 128, "bfloat16", 1029), (4, 64, "bfloat16", 3), (8, 64, "bfloat16", 1), (2, 64, "bfloat16", 200), (3, 32, "float16", 100),
            (5, 128, "bfloat16", 170), (6, 64, "float32", 1090), (3, 64, "bfloat16", 1050))):
        rows, tokens = (2, 2) if columns > 500 else (3, 3)
        x_group = 64 if code_bits <= 6 else 32
        groups = -(-columns // group)
        codes = random.integers(0, 2**code_bits, (rows, columns))
        codes[0, :33] = 2**code_bits - 1
        scales = as_kind(normal(rows, groups) * f32(0.1), scale_kind)
        biases = as_kind(normal(rows, groups), scale_kind)
        x = normal(tokens, columns)
        x[0, :32] = x[0, 0]  # codes of 127 as far as they meet the largest codes
        x[-1] = wild(columns) * f32(2.0**-20)
        if columns > 64:
            x[1, 64:96] = 0
        bias = None if i % 2 else normal(rows)
        row_bias = lambda r: None if bias is None else bias[r]
        coded = [[affine_dot(codes[r].tolist(), scales[r], biases[r], group, t, x_group, row_bias(r)) for r in range(rows)]
                 for t in x]
        decoded = [affine_decoded(codes[r].tolist(), scales[r], biases[r], group) for r in range(rows)]
        exact = [[dot(decoded[r], t, row_bias(r)) for r in range(rows)] for t in x]
        out.append({"bits": code_bits, "group": group, "scale_kind": scale_kind, "rows": rows, "columns": columns,
                    "tokens": tokens, "codes": "".join(f"{c:02x}" for c in codes.reshape(-1)), "scales": bits(scales),
                    "biases": bits(biases), "bias": None if bias is None else bits(bias), "x": bits(x),
                    "decoded": bits(decoded), "y": bits(coded), "y_float32": bits(exact)})
    return out


def zero_point_cases():
    """Zeros beside the scales, one zero for all, and both with one scale a row; biases with one scale a row."""
    out = []
    for i, (scheme, code_bits, group, scale_kind, columns) in enumerate((
            ("zero_point", 4, 64, "bfloat16", 64), ("zero_point", 4, 32, "float16", 100), ("zero_point", 4, 128, "bfloat16", 1152),
            ("zero_point", 8, 64, "float32", 70), ("zero_point", 8, 128, "bfloat16", 1100), ("zero_point", 8, 32, "bfloat16", 33),
            ("offset", 4, 32, "float16", 96), ("offset", 4, 128, "bfloat16", 300), ("offset", 8, 32, "float16", 130),
            ("offset", 8, 64, "bfloat16", 1060), ("zero_point", 4, 0, "bfloat16", 200), ("zero_point", 8, 0, "float32", 1090),
            ("offset", 4, 0, "bfloat16", 1100), ("offset", 8, 0, "bfloat16", 40), ("affine", 4, 0, "bfloat16", 1160),
            ("affine", 8, 0, "float32", 70), ("offset", 5, 32, "float16", 130), ("zero_point", 2, 64, "bfloat16", 70),
            ("zero_point", 3, 128, "bfloat16", 150), ("offset", 6, 0, "bfloat16", 100))):
        rows, tokens = (2, 2) if columns > 500 else (3, 3)
        x_group = 64 if code_bits <= 6 else 32
        span = group or columns
        groups = -(-columns // span)
        codes = random.integers(0, 2**code_bits, (rows, columns))
        codes[0, :33] = 2**code_bits - 1
        scales, biases = as_kind(normal(rows, groups) * f32(0.1), scale_kind), as_kind(normal(rows, groups), scale_kind)
        zero = 2 ** (code_bits - 1)
        zeros = random.integers(0, 2**code_bits, (rows, groups)) if scheme == "zero_point" else np.full((rows, groups), zero)
        x = normal(tokens, columns)
        x[0, :32] = x[0, 0]
        x[-1] = wild(columns) * f32(2.0**-20)
        bias = None if i % 2 else normal(rows)
        row_bias = lambda r: None if bias is None else bias[r]

        def coded(r, t):
            if group:
                return zero_point_dot(codes[r].tolist(), scales[r], zeros[r].tolist(), group, t, x_group, row_bias(r))
            b = biases[r, 0] if scheme == "affine" else None
            return row_scale_dot(codes[r].tolist(), scales[r, 0], int(zeros[r, 0]), b, t, x_group, row_bias(r))

        def decoded_weight(r, k):
            g = k // span
            if scheme == "affine":
                return fma(scales[r, g], f32(codes[r, k]), biases[r, g])
            return scales[r, g] * f32(int(codes[r, k]) - int(zeros[r, g]))

        decoded = [[decoded_weight(r, k) for k in range(columns)] for r in range(rows)]
        out.append({"scheme": scheme, "bits": code_bits, "group": group, "scale_kind": scale_kind, "rows": rows,
                    "columns": columns, "tokens": tokens, "codes": "".join(f"{c:02x}" for c in codes.reshape(-1)),
                    "scales": bits(scales), "biases": bits(biases), "zero": zero,
                    "zeros": "".join(f"{z:02x}" for z in zeros.reshape(-1)), "bias": None if bias is None else bits(bias),
                    "x": bits(x), "decoded": bits(decoded), "y": bits([[coded(r, t) for r in range(rows)] for t in x]),
                    "y_float32": bits([[dot(decoded[r], t, row_bias(r)) for r in range(rows)] for t in x])})
    return out


def matrix_case(names, codes, x, bias, decoded, coded):
    """What cases of codes have in common: `coded(row, token)` is rule 3, `decoded` rule 4; without rule 3 y is that of rule 1."""
    rows = len(codes)
    row_bias = lambda r: None if bias is None else bias[r]
    exact = [[dot(decoded[r], t, row_bias(r)) for r in range(rows)] for t in x]
    y = exact if coded is None else [[coded(r, t) for r in range(rows)] for t in x]
    return {**names, "rows": rows, "columns": len(codes[0]), "tokens": len(x),
            "codes": "".join(f"{c:02x}" for c in codes.reshape(-1)), "bias": None if bias is None else bits(bias),
            "x": bits(x), "decoded": bits(decoded), "y": bits(y), "y_float32": bits(exact)}


def hard_tokens(tokens, columns):
    """One whose first codes are all 127, one of numbers of every size."""
    x = normal(tokens, columns)
    x[0, :32] = x[0, 0]
    x[-1] = wild(columns) * f32(2.0**-20)
    return x


def table_cases():
    """Codes that stand for floats or for values of a table, with a scale for each group."""
    out = []
    for i, (values, group, scale_kind, columns) in enumerate((
            ("e2m1", 32, "bfloat16", 96), ("e2m1", 32, "bfloat16", 1060), ("e2m1", 16, "e4m3", 144), ("e2m1", 16, "e4m3", 70),
            ("e2m1", 16, "e4m3", 1048), ("iq4", 32, "float16", 128), ("iq4", 32, "float16", 1090), ("e4m3", 32, "bfloat16", 100),
            ("e4m3", 32, "bfloat16", 1056))):
        rows, tokens = (2, 2) if columns > 500 else (3, 3)
        groups = -(-columns // group)
        codes = random.integers(0, 16 if values != "e4m3" else 127, (rows, columns))
        if values == "e4m3":
            codes += 128 * random.integers(0, 2, codes.shape)
        else:
            codes[0, :33] = 7 if values == "e2m1" else 15
        if scale_kind == "e4m3":
            scales = np.array([[e4m3(int(c)) for c in row] for row in random.integers(0, 127, (rows, groups))], f32)
        elif values == "iq4":
            scales = as_kind(normal(rows, groups) * f32(0.01), scale_kind)
        else:
            scales = np.ldexp(f32(1), random.integers(-12, 3, (rows, groups))).astype(f32)
        scales[0, 0] = scales[0, 0] if scale_kind != "bfloat16" else f32(2.0**-127)
        if values == "e4m3":  # times the 2^120 that E4M3's exponents lack it is no float any more
            scales[0, 1] = f32(2.0**30)
        x = hard_tokens(tokens, columns)
        bias = None if i % 2 else normal(rows)
        row_bias = lambda r: None if bias is None else bias[r]
        number = {"e2m1": lambda c: f32(E2M1[c]), "iq4": lambda c: f32(IQ4[c]), "e4m3": lambda c: e4m3(int(c))}[values]
        decoded = [[scales[r, k // group] * number(c) for k, c in enumerate(codes[r])] for r in range(rows)]

        def coded(r, t):
            if values == "e2m1":  # doubled, so that they are integers
                c, s, z = [int(2 * E2M1[c]) + 12 for c in codes[r]], scales[r] * f32(0.5), 12
            else:
                c, s, z = [IQ4[c] + 128 for c in codes[r]], scales[r], 128
            x_group = 64 if values == "e2m1" else 32  # IQ4's values have 8 bits
            return zero_point_dot(c, s, [z] * groups, group, t, x_group, row_bias(r))

        out.append(matrix_case({"values": values, "group": group, "scale_kind": scale_kind, "scales": bits(scales)}, codes, x, bias,
                               decoded, None if values == "e4m3" else coded))
    return out


def two_level_cases():
    out = []
    for i, (values, code_bits, sub, largest, columns) in enumerate((
            ("integers", 2, 16, 15, 256), ("integers", 3, 16, 31, 512), ("integers", 4, 32, 63, 256), ("integers", 4, 32, 63, 1280),
            ("integers", 5, 32, 63, 512), ("integers", 6, 16, 127, 256), ("integers", 6, 16, 127, 1280), ("iq4", 4, 32, 31, 512))):
        rows, tokens = 2, 2
        minima = values == "integers" and code_bits in (2, 4, 5)
        zero = {3: 4, 6: 32}.get(code_bits, 0)
        codes = random.integers(0, 2**code_bits, (rows, columns))
        codes[0, :64] = 2**code_bits - 1
        v = [[IQ4[c] if values == "iq4" else int(c) - zero for c in row] for row in codes]
        sc = random.integers(0 if minima else -largest - 1, largest + 1, (rows, columns // sub))
        sc[0, :4] = largest if minima else -largest - 1
        m = random.integers(0, largest + 1, (rows, columns // sub)) if minima else np.zeros((rows, columns // sub), int)
        d, dmin = as_kind(normal(rows, columns // 256) * f32(0.01), "float16"), as_kind(normal(rows, columns // 256), "float16")
        x = hard_tokens(tokens, columns)
        x[0, :64] = x[0, 0]
        bias = None if i % 2 else normal(rows)
        row_m = lambda r: m[r] if minima else None
        coded = lambda r, t: two_level_dot(v[r], sub, sc[r], row_m(r), d[r], dmin[r], t, None if bias is None else bias[r])
        decoded = [two_level_decoded(v[r], sub, sc[r], row_m(r), d[r], dmin[r]) for r in range(rows)]
        names = {"values": values, "bits": code_bits, "group": sub, "scale_kind": "float16", "scales": bits(d), "biases": bits(dmin),
                 "sub_scales": "".join(f"{s & 255:02x}" for s in sc.reshape(-1)),
                 "sub_minima": "".join(f"{s:02x}" for s in m.reshape(-1))}
        out.append(matrix_case(names, codes, x, bias, decoded, coded))
    return out


def w8a8_cases():
    out = []
    for i, (scale_kind, columns) in enumerate((("bfloat16", 64), ("float32", 1), ("float16", 200), ("bfloat16", 2100), ("float32", 33))):
        rows, tokens = 3, 4
        codes = random.integers(-128, 128, (rows, columns))
        codes[0] = -128
        scales = as_kind(normal(rows) * f32(0.01), scale_kind)
        x = normal(tokens, columns)
        x[0] = -abs(x[0, 0])  # every code -128
        x[1] = 0
        x[2] = np.resize(np.array([127.5, 0.5, 1.5, 2.5, -0.5, -1.5, -127.5], f32), columns)  # ties,
        x[2] *= f32(1 if i % 2 else 1.1)  # here those of a division, which a product with the inverse does not meet
        x[3] = wild(columns)
        bias = None if i % 2 else normal(rows)
        token_codes = [code_token(t) for t in x]
        out.append({"scale_kind": scale_kind, "rows": rows, "columns": columns, "tokens": tokens,
                    "codes": "".join(f"{c + 128:02x}" for c in codes.reshape(-1)), "scales": bits(scales),
                    "bias": None if bias is None else bits(bias), "x": bits(x),
                    "x_codes": "".join(f"{q & 255:02x}" for t in token_codes for q in t[0]),
                    "x_scales": bits([t[1] for t in token_codes]),
                    "y": bits([[w8a8_dot(codes[r], scales[r], t, None if bias is None else bias[r]) for r in range(rows)]
                               for t in x])})
    return out


if __name__ == "__main__":
    cos_sin, rotations = rope_cases()
    document = {
        "rounding": rounding_cases(), "dot": dot_cases(), "rms_norm": norm_cases(), "cos_sin": cos_sin, "rope": rotations,
        "functions": function_cases(), "gelu_mul": gelu_cases(), "attention": attention_cases(), "exp_sum": exp_sum_cases(),
        "codes": code_cases(), "affine": affine_cases(), "attention_int8": coded_attention_cases(),
        "zero_point": zero_point_cases(), "w8a8": w8a8_cases(), "table": table_cases(), "two_level": two_level_cases(),
    }
    path = pathlib.Path(__file__).parent.parent / "data" / "numerics.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
