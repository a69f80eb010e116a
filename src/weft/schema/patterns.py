"""Regular expressions that a publisher's text may be matched with: they run on RE2, through Arrow, in time linear in
the text. With Python's ``re``, one hostile text could block a node for hours. So only a schema with a pattern loads
Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.schema.values import BadSchema

PATTERN_CHARS_MAX: Final = 1024  # RE2 compiles it once per call; longer ones cost memory


def check_pattern(pattern: str, path: str) -> None:
    """BadSchema if the pattern cannot be used."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise BadSchema("the pattern is too long", at=path, limit=PATTERN_CHARS_MAX)
    try:
        matching([""], pattern)
    except ValueError as error:
        reason = str(error).rpartition("expression: ")[2]
        raise BadSchema(
            f"not a pattern of RE2 (which has no look-around and no references): {reason}", at=path
        ) from None


def matching(texts: Sequence[str | None], pattern: str) -> list[bool | None]:
    """Which texts the pattern is found in, anywhere in them; None for None. ValueError: it is no pattern."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: list[bool | None] = pc.match_substring_regex(pa.array(texts, pa.string()), pattern).to_pylist()
    return found
