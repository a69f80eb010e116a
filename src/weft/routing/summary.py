"""Very many patterns in few bytes: a Bloom filter of the patterns, and the shapes that they have (ADR 28).

A shape is a pattern without its names: ``plant.*.temp`` has the shape ``n*n``, ``plant.line1.>`` has ``nn>``. For each
shape, exactly one pattern could select a given topic, and the filter says whether that pattern is in the set.

- If one of the patterns selects a topic, the summary always selects it: there are no false negatives.
- If none of them selects a topic, the summary still selects it with a chance of about 1 in 800 for every shape that
  fits. That holds with ``PATTERN_BITS`` bits for each pattern; if the filter may not grow so large, the chance is
  higher. Every node also has the shape of the mesh's own ``weft.groups.>``, so most topics fit two shapes: 0.3 % false
  positives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from math import ceil, log
from typing import Final

from weft.errors import UsageError
from weft.limits import INTEREST_FILTER_BYTES_MAX, MATCHES_KEPT_MAX, TOPIC_BYTES_MAX
from weft.model import Pattern, Topic
from weft.model.topic import ONE, REST
from weft.routing.interest import aggregate
from weft.routing.pieces import Pieces, in_pieces

PATTERN_BITS: Final = 14  # of the filter, for each pattern: with 10 hashes, 0.12 % false positives
HASHES_MAX: Final = 16  # a nearly empty filter needs no more, and each one makes every look-up slower
FILTER_BYTES_MIN: Final = 64  # for a handful of patterns, with one false positive in a billion
SHAPES_MAX: Final = 32  # of one filter: most nodes have one or two, and each costs one more look-up in the filter
SHAPES_EXACT: Final = 24  # the most common shapes; patterns of other shapes are widened to fit the rest

NAME: Final = "n"  # in a shape, stands for any token that is no wildcard
SHAPE_CHARS_MAX: Final = (TOPIC_BYTES_MAX + 1) // 2  # at most: tokens of one byte, with dots between them


@dataclass(frozen=True, slots=True)
class Summary:
    """A set of patterns, approximately. ``shapes`` are in order; ``bits`` is the filter, read with ``hashes`` hash
    functions."""

    bits: bytes
    hashes: int
    shapes: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check the sizes: a summary may come from outside, and this bounds the cost of a look-up."""
        if not 1 <= len(self.bits) <= INTEREST_FILTER_BYTES_MAX:
            raise UsageError(f"a filter of interest has 1 to {INTEREST_FILTER_BYTES_MAX} bytes", have=len(self.bits))
        if not 1 <= self.hashes <= HASHES_MAX:
            raise UsageError(f"a filter of interest has 1 to {HASHES_MAX} hashes", have=self.hashes)
        if len(self.shapes) > SHAPES_MAX:
            raise UsageError("too many shapes of patterns", have=len(self.shapes), limit=SHAPES_MAX)
        for shape in self.shapes:
            if not 1 <= len(shape) <= SHAPE_CHARS_MAX or set(shape[:-1]) - {NAME, ONE} or shape[-1] not in "n*>":
                raise UsageError(f"not a shape of a pattern: {shape[:SHAPE_CHARS_MAX]!r}", limit=SHAPE_CHARS_MAX)

    @property
    def size_bytes(self) -> int:
        return len(self.bits) + sum(map(len, self.shapes))

    def may_select(self, topic: Topic) -> bool:
        """Return False if none of the patterns selects the topic, True if one of them does or in case of a false
        positive."""
        tokens = topic.split(".")
        return any(
            pattern is not None and self._has(pattern)
            for pattern in (_pattern_of(tokens, shape) for shape in self.shapes)
        )

    def _has(self, pattern: Pattern) -> bool:
        bits = self.bits
        places = _places(_kept_hashes_of(pattern), self.hashes, 8 * len(bits))
        return all(bits[place >> 3] >> (place & 7) & 1 for place in places)


def summarize(patterns: Iterable[Pattern], bytes_max: int) -> Pieces[Summary]:
    """The filter of these patterns, with at most ``bytes_max`` bytes. The same set gives the same filter, in whatever
    order it comes."""
    kept, shapes = yield from _with_few_shapes(set(patterns))
    size = min(max(ceil(len(kept) * PATTERN_BITS / 8), FILTER_BYTES_MIN), bytes_max)
    hashes = min(max(round(8 * size / max(len(kept), 1) * log(2)), 1), HASHES_MAX)
    bits = bytearray(size)
    for piece in in_pieces(kept):
        _add_to_filter(bits, hashes, piece)
        yield
    return Summary(bytes(bits), hashes, tuple(sorted(shapes)))


def _add_to_filter(bits: bytearray, hashes: int, patterns: Iterable[Pattern]) -> None:
    """Set the bits that ``_places`` names for each pattern. The loop is written out for speed, because there may be
    10,000 patterns."""
    count = 8 * len(bits)
    for pattern in patterns:
        first, step = _hashes_of(pattern)
        place, step = first % count, step % count
        for _ in range(hashes):
            bits[place >> 3] |= 1 << (place & 7)
            place += step
            if place >= count:
                place -= count


def shape_of(pattern: Pattern) -> str:
    return "".join(token if token in (ONE, REST) else NAME for token in pattern.split("."))


def _with_few_shapes(patterns: set[Pattern]) -> Pieces[tuple[set[Pattern], set[str]]]:
    """These patterns, or wider ones that cover them, so that they have at most ``SHAPES_MAX`` shapes; and those
    shapes."""
    of_shape: dict[str, list[Pattern]] = {}
    for piece in in_pieces(patterns):
        for pattern in piece:
            of_shape.setdefault(shape_of(pattern), []).append(pattern)
        yield
    if len(of_shape) <= SHAPES_MAX:
        return patterns, set(of_shape)
    rarest_last = sorted(of_shape, key=lambda shape: (-len(of_shape[shape]), shape))
    common, rare = rarest_last[:SHAPES_EXACT], rarest_last[SHAPES_EXACT:]
    merged = aggregate((each for shape in rare for each in of_shape[shape]), SHAPES_MAX - SHAPES_EXACT).patterns
    kept = {*merged, *(each for shape in common for each in of_shape[shape])}
    return kept, {*common, *map(shape_of, merged)}


def _pattern_of(tokens: list[str], shape: str) -> Pattern | None:
    """The only pattern of a shape that can select the topic with these tokens; None if there is none."""
    if shape[-1] == REST:
        if len(tokens) < len(shape):
            return None
        tokens = [*tokens[: len(shape) - 1], REST]
    elif len(tokens) != len(shape):
        return None
    return Pattern(".".join(token if kind == NAME else kind for token, kind in zip(tokens, shape, strict=True)))


def _places(hashes_of: tuple[int, int], hashes: int, bits: int) -> Iterable[int]:
    """The bits of a pattern, from two hashes of it (Kirsch and Mitzenmacher)."""
    first, step = hashes_of
    return ((first + number * step) % bits for number in range(hashes))


def _hashes_of(pattern: Pattern) -> tuple[int, int]:
    """Two hashes of a pattern. They are part of the protocol: every node has to compute the same ones."""
    digest = blake2b(pattern.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") | 1


_kept_hashes_of = lru_cache(MATCHES_KEPT_MAX)(_hashes_of)  # one topic is looked up in the filters of many nodes
