"""Endless damaged copies of good inputs, the same ones every time for the same seed.

Targets take a few microseconds, so making an input has to cost less than that. Every kind of damage is therefore the
same operation, an ``Edit``, and the edits are drawn in advance: what is left per input is to take a seed and to apply,
at a random place, edits picked by one random number each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import NamedTuple

GROWTH_BYTES = 1024  # how far an input may grow beyond the longest seed: enough to overrun any one-byte length
BLOCK_BYTES_MAX = 32  # what is inserted, deleted or moved at once
EDIT_BITS = 11  # so many that they hardly repeat within a job, so few that drawing them takes no time
WORDS = 4096  # random numbers drawn at once
REST = 1 << 30  # more bytes than any input has

# Values at which lengths and counters break: around zero, around sign changes, around the largest that fits.
INTERESTING = [
    value.to_bytes(size, order)
    for size in (1, 2, 4, 8)
    for order in ("big", "little")
    for value in (0, 1, 2, (1 << size * 8 - 1) - 1, 1 << size * 8 - 1, (1 << size * 8) - 2, (1 << size * 8) - 1)
]
# Added to a byte: small steps for lengths that are off by a little, powers of two because those flip a bit.
STEPS = [*range(-8, 0), *range(1, 9), -16, 16, -32, 32, -64, 64, 128, 128]

BYTES = [bytes((value,)) for value in range(256)]


class Edit(NamedTuple):
    """At some place, replace ``drop`` bytes by ``piece``; or, if ``step`` is not 0, add it to the byte there."""

    step: int
    drop: int
    piece: bytes
    is_last: bool  # the input is done after this edit: true for every other one, so that most inputs get one or two


# How often each kind of damage occurs; most of it leaves most of the input intact, which then gets further.
KINDS = [
    kind
    for kind, weight in {
        "step": 5,
        "set": 2,
        "integer": 3,
        "insert": 1,
        "delete": 2,
        "block": 2,
        "splice": 1,
        "truncate": 1,
        "random": 1,
    }.items()
    for _ in range(weight)
]


def draw_edit(chance: random.Random, seeds: Sequence[bytes], is_last: bool) -> Edit:
    """One edit of a random kind."""
    match chance.choice(KINDS):
        case "step":
            return Edit(chance.choice(STEPS), 0, b"", is_last)
        case "set":
            return Edit(0, 1, chance.choice(BYTES), is_last)
        case "integer":
            value = chance.choice(INTERESTING)
            return Edit(0, len(value), value, is_last)
        case "insert":
            return Edit(0, 0, chance.randbytes(chance.randint(1, 4)), is_last)
        case "delete":
            return Edit(0, chance.randint(1, BLOCK_BYTES_MAX), b"", is_last)
        case "block":
            piece = draw_tail(chance, seeds)[: chance.randint(1, BLOCK_BYTES_MAX)]
            return Edit(0, chance.choice((0, len(piece))), piece, is_last)
        case "splice":
            return Edit(0, REST, draw_tail(chance, seeds), is_last)
        case "truncate":
            return Edit(0, REST, b"", is_last)
        case _:
            size = chance.randint(1, BLOCK_BYTES_MAX)
            return Edit(0, size, chance.randbytes(size), is_last)


def draw_tail(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """A seed from some byte on."""
    seed = chance.choice(seeds)
    return seed[chance.randint(0, len(seed)) :]


def mutations(seeds: Sequence[bytes], seed: str) -> Iterator[bytes]:
    """Damaged copies of ``seeds`` without end; the same arguments give the same sequence."""
    chance = random.Random(seed)  # noqa: S311  (has to be repeatable, need not be secret)
    seeds = list(seeds) or [b""]
    bytes_max = max(map(len, seeds)) + GROWTH_BYTES
    edits = [draw_edit(chance, seeds, is_last=number % 2 == 0) for number in range(1 << EDIT_BITS)]
    mask = len(edits) - 1
    originals = cycle(seeds)
    data = next(originals)
    while True:
        for word in memoryview(chance.randbytes(4 * WORDS)).cast("I"):
            step, drop, piece, is_last = edits[word & mask]
            at = (word >> EDIT_BITS) % (len(data) + 1)
            if not step:
                data = data[:at] + piece + data[at + drop :]
            elif at < len(data):
                data = data[:at] + BYTES[(data[at] + step) & 255] + data[at + 1 :]
            if is_last:
                yield data[:bytes_max]
                data = next(originals)


def inputs(seeds: Sequence[bytes], seed: str, count: int) -> Iterator[bytes]:
    """What ``count`` executions are fed: the seeds as they are, then mutations of them."""
    yield from islice(seeds, count)
    yield from islice(mutations(seeds, seed), max(0, count - len(seeds)))
