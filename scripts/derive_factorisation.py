"""Derive `memplace_env/placement/synthetic/factorisations/rank47_mod2.txt`: 47 products for 4 x 4 matrices modulo 2.

A random walk in the flip graph (Kauers and Moosbauer 2022, arXiv 2212.01175) with plus transitions, which starts from a
good scheme for fewer rows (Arai, Ichikawa and Hukushima 2024, arXiv 2312.16960). A scheme is a sum of terms a x b x c;
each factor is a word of 16 bits, one per matrix entry, and addition is exclusive or.

- Flip: two terms with equal a: a x b x c + a x b' x c' = a x (b + b') x c + a x b' x (c + c'); so for b and c.
- Reduction: a term with a factor that has become 0 is dropped.
- Plus: when no reduction came for a while, a x b x c + a' x b' x c' becomes three terms,
  a x (b + b') x c + a x b' x (c + c') + (a + a') x b' x c'.

The result is written in the bases that make it sparsest. The seed decides everything: the default gives the shipped
file within some minutes.

    python scripts/derive_factorisation.py --out rank47_mod2.txt
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numba as nb
import numpy as np

from memplace_env.placement.synthetic.bilinear import Factorisation

SIDE = 4
BITS = SIDE * SIDE
MOST_TERMS = 64
THREE_ROWS = 48
DE_BRUIJN = 0x022FDD63CC95386D


def _bit_numbers() -> np.ndarray:
    table = np.zeros(64, dtype=np.int64)
    for bit in range(64):
        table[((1 << bit) * DE_BRUIJN & (2**64 - 1)) >> 58] = bit
    return table


BIT_NUMBER = _bit_numbers()


@nb.njit(inline="always")
def _bit_number(word):
    return BIT_NUMBER[(word * np.uint64(DE_BRUIJN)) >> np.uint64(58)]


@nb.njit(inline="always")
def _draw(state):
    """Return the next 64 bits of Marsaglia's xorshift generator (13, 7, 17)."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return x


@nb.njit(inline="always")
def _below(bits, limit):
    """Return a number in 0..limit-1 from the lowest 16 of the bits."""
    return np.int64(((bits & np.uint64(0xFFFF)) * np.uint64(limit)) >> np.uint64(16))


@nb.njit
def _set(words, terms_of, shared, factor, term, value):
    """Set words[factor, term] = value.

    `terms_of[f, x]` has a bit for each term whose factor f is x; `shared[f]` has one for each term that has its f in
    common with another.
    """
    one, bit = np.uint64(1), np.uint64(1) << np.uint64(term)
    left = terms_of[factor, words[factor, term]] & ~bit
    terms_of[factor, words[factor, term]] = left
    if left & (left - one) == 0:
        shared[factor] &= ~left
    words[factor, term] = value
    same = terms_of[factor, value]
    terms_of[factor, value] = same | bit
    shared[factor] &= ~bit
    if same != 0:
        shared[factor] |= same | bit


@nb.njit
def _index(words, rank, terms_of, shared):
    terms_of[:] = 0
    shared[:] = 0
    for factor in range(3):
        for term in range(rank):
            value = words[factor, term]
            terms_of[factor, value] |= np.uint64(1) << np.uint64(term)
            same = terms_of[factor, value]
            if same & (same - np.uint64(1)) != 0:
                shared[factor] |= same


@nb.njit
def _drop_zeros(words, rank):
    term = 0
    while term < rank:
        if words[0, term] == 0 or words[1, term] == 0 or words[2, term] == 0:
            rank -= 1
            words[:, term] = words[:, rank]
        else:
            term += 1
    return rank


@nb.njit
def _plus(words, rank, state):
    while True:
        x = _draw(state)
        one, other, first = _below(x, rank), _below(x >> np.uint64(16), rank), _below(x >> np.uint64(32), 3)
        distinct = words[:, one] != words[:, other]
        if distinct.all():
            break
    second, third = (first + 1) % 3, (first + 2) % 3
    words[first, rank] = words[first, one] ^ words[first, other]
    words[second, rank], words[third, rank] = words[second, other], words[third, other]
    words[first, other] = words[first, one]
    words[third, other] ^= words[third, one]
    words[second, one] ^= words[second, other]
    return rank + 1


@nb.njit
def walk(words, rank, best, flips, wait, margin, state, terms_of):
    """Walk for so many flips or until `best` is improved; return rank and flips done.

    A plus comes after `wait` flips without a reduction, at ranks below `best + margin` and below 64.
    """
    shared = np.zeros(3, dtype=np.uint64)
    _index(words, rank, terms_of, shared)
    since, done = 0, 0
    while done < flips:
        stuck = shared[0] == 0 and shared[1] == 0 and shared[2] == 0
        if stuck or since >= wait:
            since = 0
            if rank < MOST_TERMS and (stuck or rank < best + margin):
                rank = _plus(words, rank, state)
                rank = _drop_zeros(words, rank)
                _index(words, rank, terms_of, shared)
            continue
        x = _draw(state)
        factor, term = _below(x, 3), _below(x >> np.uint64(16), rank)
        if shared[factor] >> np.uint64(term) & np.uint64(1) == 0:
            continue
        partners = terms_of[factor, words[factor, term]] & ~(np.uint64(1) << np.uint64(term))
        while partners & (partners - np.uint64(1)) != 0:
            if _draw(state) >> np.uint64(63) != 0:
                break
            partners &= partners - np.uint64(1)
        other = _bit_number(partners & (~partners + np.uint64(1)))
        second, third = (factor + 1) % 3, (factor + 2) % 3
        if x >> np.uint64(63) != 0:
            second, third = third, second
        _set(words, terms_of, shared, second, term, words[second, term] ^ words[second, other])
        _set(words, terms_of, shared, third, other, words[third, other] ^ words[third, term])
        done += 1
        since += 1
        if words[second, term] == 0 or words[third, other] == 0:
            rank = _drop_zeros(words, rank)
            _index(words, rank, terms_of, shared)
            since = 0
            if rank < best:
                break
    return rank, done


def standard_words() -> np.ndarray:
    """Return int64[3, 64] of the standard algorithm; the first 48 terms make the upper three rows of C."""
    words = np.zeros((3, MOST_TERMS), dtype=np.int64)
    i, j, k = (index.ravel() for index in np.indices((SIDE, SIDE, SIDE)))
    for factor, entry in enumerate((i * SIDE + j, j * SIDE + k, i * SIDE + k)):
        words[factor] = 1 << entry
    return words


def descend(words, rank, target, patience, rng, state, terms_of):
    """Return words and rank of the best scheme until `target` is reached or `patience` flips bring no better one."""
    best, waited, kept = rank, 0, words.copy()
    while waited < patience and best > target:
        wait, margin = int(np.exp(rng.uniform(np.log(2e3), np.log(5e4)))), int(rng.integers(2, 7))
        rank, done = walk(words, rank, best, 2_000_000, wait, margin, state, terms_of)
        waited += done
        if rank < best:
            best, waited, kept = rank, 0, words.copy()
    return kept, best


def derive(seed: int, target: int) -> np.ndarray:
    """Return int64[3, target]: the upper three rows of C with 38 products, then the fourth by the definition."""
    rng = np.random.default_rng(seed)
    state = rng.integers(1, 2**63, 1).astype(np.uint64)
    terms_of = np.zeros((3, 1 << BITS), dtype=np.uint64)
    began, standard = time.monotonic(), standard_words()
    while True:
        words = standard.copy()
        words[:, THREE_ROWS:] = 0
        words, first = descend(words, THREE_ROWS, 38, 15_000_000, rng, state, terms_of)
        rank = first
        if first <= 40:
            rank = first + MOST_TERMS - THREE_ROWS
            words[:, first:] = 0
            words[:, first:rank] = standard[:, THREE_ROWS:]
            words, rank = descend(words, rank, target, 60_000_000, rng, state, terms_of)
        print(f"{time.monotonic() - began:.0f} s: three rows {first}, all {rank}", flush=True)
        if rank <= target:
            return words[:, :rank]


def sparsify(u: np.ndarray, v: np.ndarray, w: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Change the bases of the rows and columns, u -> X u Y^-1, v -> Y v Z^-1, w -> X^-T w Z^T, for fewer ones.

    Annealing over row and column additions; `u`, `v` and `w` are int8[R, 4, 4].
    """
    now = [u, v, w.transpose(0, 2, 1)]
    ones = sum(int(factor.sum()) for factor in now)
    best = ones, now
    for step in range(3000):
        temperature = 12 * (0.5 / 12) ** (step / 3000)
        changed = [factor.copy() for factor in now]
        which = int(rng.integers(3))
        a, b = rng.choice(SIDE, 2, replace=False)
        changed[which][:, a] ^= changed[which][:, b]
        changed[which - 1][:, :, b] ^= changed[which - 1][:, :, a]
        count = sum(int(factor.sum()) for factor in changed)
        if count <= ones or rng.random() < np.exp((ones - count) / temperature):
            ones, now = count, changed
            best = min(best, (ones, now), key=lambda pair: pair[0])
    u, v, w = best[1]
    return [u, v, w.transpose(0, 2, 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rank", type=int, default=47, help="stop there")
    parser.add_argument("--out", type=Path, help="file to write")
    options = parser.parse_args()
    words = derive(options.seed, options.rank)
    factors = [(words[f, :, None] >> np.arange(BITS) & 1).astype(np.int8).reshape(-1, SIDE, SIDE) for f in range(3)]
    factors = [f.reshape(-1, BITS) for f in sparsify(*factors, np.random.default_rng(options.seed))]
    result = Factorisation("derived", (SIDE, SIDE, SIDE), *factors, modulus=2).check()
    print(f"rank {result.rank}, exact modulo 2, with {sum(int(f.sum()) for f in factors)} coefficients")
    if options.out:
        packed = np.stack([f.astype(np.int64) @ (1 << np.arange(BITS)) for f in factors], axis=1)
        lines = [" ".join(f"{word:04x}" for word in term) for term in sorted(packed.tolist())]
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
