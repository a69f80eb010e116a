"""Selecting a table's rows by topics and patterns, in Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.spark.selection import parse_selection

if TYPE_CHECKING:
    from pyspark.sql import Column


def selects(subscribe: str) -> Column:
    """A condition: the list of topics and patterns selects the column ``topic``."""
    from pyspark.sql import functions as f

    selection = parse_selection("subscribe", subscribe)
    wanted = f.col("topic").rlike("|".join(map(topic_regex, selection.patterns)))
    if not selection.excluded:
        return wanted
    return wanted & ~f.col("topic").rlike("|".join(map(topic_regex, selection.excluded)))


def selected(subscribe: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows whose topic the list selects; the same as ``selects``, without Spark."""
    selection = parse_selection("subscribe", subscribe)
    wanted, excluded = (
        [re.compile(topic_regex(pattern)) for pattern in patterns]
        for patterns in (selection.patterns, selection.excluded)
    )
    topics = rows.column("topic").dictionary_encode()
    chosen = [
        any(each.match(topic) for each in wanted) and not any(each.match(topic) for each in excluded)
        for topic in topics.dictionary.to_pylist()
    ]
    return rows if all(chosen) else rows.filter(pa.array(chosen, pa.bool_()).take(topics.indices))


def topic_regex(pattern: str) -> str:
    """A regular expression for the topics that a pattern selects. It means the same in Java and in Python."""
    signs = {"*": r"[^.]+", ">": r".+"}
    return "^" + r"\.".join(signs.get(token) or _literal(token) for token in pattern.split(".")) + "$"


def _literal(token: str) -> str:
    return "".join(re.escape(each) if each.isascii() else each for each in token)
