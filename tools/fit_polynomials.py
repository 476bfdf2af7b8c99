#!/usr/bin/env python3
"""Fits the polynomials of src/kernels/math.inc.h (docs/numerics.md, Elementary functions) and prints their coefficients.

Each one is the minimax polynomial for a weighted error, found by Remez exchange in 60 digits. Coefficients are rounded to
the working precision one by one, highest degree first; after each rounding the others are fitted again, so that they make
up for it. Needs mpmath; takes about a minute.
"""

import mpmath as mp
import struct

mp.mp.dps = 60
NODES = 3000  # places where the error is looked at


def round_to_float(x):
    return mp.mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def round_to_double(x):
    return mp.mpf(float(x))


def chebyshev_nodes(low, high, count):
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def remez(target, weight, powers, low, high):
    """Coefficients c of sum c_i x^powers_i that minimize max |weight(x) (target(x) - sum)| over [low, high]."""
    grid = chebyshev_nodes(low, high, NODES)
    samples = [(x, target(x), weight(x)) for x in grid]
    count = len(powers)
    picks = [round(i * (NODES - 1) / count) for i in range(count + 1)]
    for _ in range(30):
        matrix = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, pick in enumerate(picks):
            x, value, w = samples[pick]
            for column, power in enumerate(powers):
                matrix[row, column] = x**power
            matrix[row, count] = (-1) ** row / w
            right[row] = value
        solution = mp.lu_solve(matrix, right)
        coefficients, level = list(solution[:count]), abs(solution[count])
        errors = [w * (value - sum(c * x**p for c, p in zip(coefficients, powers))) for x, value, w in samples]
        # One extremum for each run of errors of one sign.
        extrema = []
        for i, error in enumerate(errors):
            if extrema and (errors[extrema[-1]] > 0) == (error > 0):
                if abs(error) > abs(errors[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > count + 1:
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        worst = max(abs(e) for e in errors)
        if len(extrema) < count + 1 or worst <= level * (1 + mp.mpf(10) ** -4):
            return coefficients, worst
        picks = extrema
    return coefficients, worst


def fit(name, target, weight, powers, low, high, rounding=round_to_float):
    low, high = mp.mpf(low), mp.mpf(high)
    known = {}
    while len(known) < len(powers):
        free = [p for p in powers if p not in known]
        rest = lambda x: target(x) - sum(c * x**p for p, c in known.items())
        coefficients, worst = remez(rest, weight, free, low, high)
        if not known:
            print(f"{name}: weighted error {mp.nstr(worst, 3)} = 2^{mp.nstr(mp.log(worst, 2), 4)} before rounding")
        known[free[-1]] = rounding(coefficients[-1])
    grid = chebyshev_nodes(low, high, NODES)
    worst = max(abs(weight(x) * (target(x) - sum(c * x**p for p, c in known.items()))) for x in grid)
    print(f"    after rounding {mp.nstr(worst, 3)} = 2^{mp.nstr(mp.log(worst, 2), 4)}")
    for power in powers:
        print(f"    x^{power}: {float(known[power]).hex()} = {float(known[power])!r}")


def erf_over_x(s):
    if s == 0:
        return 2 / mp.sqrt(mp.pi)
    return mp.erf(mp.sqrt(s)) / mp.sqrt(s)


def taylor_guard(function, series):
    """`function`, which cancels near 0, or its `series` there."""
    return lambda x: series(x) if abs(x) < mp.mpf(10) ** -12 else function(x)


if __name__ == "__main__":
    half_ln2 = mp.log(2) / 2 * (1 + mp.mpf(2) ** -12)
    # exp(r) = 1 + (r + r^2 Q(r))
    fit("exp", taylor_guard(lambda r: (mp.exp(r) - 1 - r) / r**2, lambda r: mp.mpf(1) / 2 + r / 6),
        lambda r: r**2 / mp.exp(r), [0, 1, 2, 3, 4], -half_ln2, half_ln2)
    # log(1 + f) = f - f^2 / 2 + f^3 R(f)
    fit("log", taylor_guard(lambda f: (mp.log1p(f) - f + f * f / 2) / f**3, lambda f: mp.mpf(1) / 3 - f / 4),
        lambda f: f**3 / mp.log1p(f) if f else mp.mpf(0) + mp.mpf(10) ** -30, [0, 1, 2, 3, 4, 5, 6, 7, 8],
        mp.sqrt(mp.mpf(1) / 2) - 1, mp.sqrt(2) - 1)
    # erf(x) = x + x P(x^2) for |x| < 0.921875
    fit("erf, small", lambda s: erf_over_x(s) - 1, lambda s: 1 / erf_over_x(s), [0, 1, 2, 3, 4, 5, 6], 0, mp.mpf("0.921875")**2)
    # erf(t) = 1 - exp(L(t)) for t in [0.921875, 4]
    fit("erf, large", lambda t: mp.log(mp.erfc(t)), lambda t: mp.erfc(t) / mp.erf(t), [0, 1, 2, 3, 4, 5, 6],
        mp.mpf("0.921875"), 4)
    quarter = (mp.pi / 4) ** 2 * (1 + mp.mpf(2) ** -20)
    root = lambda s: mp.sqrt(s)
    # sin(r) = r + r^3 S(r^2), cos(r) = (1 - r^2 / 2) + r^4 C(r^2)
    fit("sin", taylor_guard(lambda s: (mp.sin(root(s)) - root(s)) / root(s)**3, lambda s: -mp.mpf(1) / 6 + s / 120),
        lambda s: root(s)**3 / mp.sin(root(s)) if s else mp.mpf(10) ** -30, [0, 1, 2, 3, 4, 5], 0, quarter, round_to_double)
    fit("cos", taylor_guard(lambda s: (mp.cos(root(s)) - 1 + s / 2) / s**2, lambda s: mp.mpf(1) / 24 - s / 720),
        lambda s: s**2 / mp.cos(root(s)), [0, 1, 2, 3, 4, 5], 0, quarter, round_to_double)
