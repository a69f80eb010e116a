"""Writes docs/configuration.md from the models: ``python -m weft.node.config.page > docs/configuration.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from weft.configuration import Section
from weft.lake.access import StoreSection
from weft.node.config import NodeConfig
from weft.node.config.emm import EmmOutSection, EmmRuleSection, EmmSealSection
from weft.node.config.history import HistorySection
from weft.node.config.loading import TABLES, variable_of
from weft.node.config.sections import Peer, TopicSection

INTRODUCTION = """\
# Configuration of a node

<!-- Written by `python -m weft.node.config.page`; change src/weft/node/config/ instead. -->

A node takes its settings from a file, the environment and flags. Each overrides the one before:

1. `weft.toml`: the file that `weft up --config FILE` or `WEFT_CONFIG` names.
2. Variables: `queue_frames_max` of the section `link` is `WEFT_LINK_QUEUE_FRAMES_MAX`. Lists are separated by commas.
3. Flags of `weft up`, for what is set most often (see [cli.md](cli.md)).

Every number has a range. An unknown name is refused, and the error suggests the name that was probably meant. A wrong
value is never replaced by a default. Durations are in seconds, sizes in bytes.

```toml
peers = ["127.0.0.1:7410", { address = "127.0.0.1:7420", node_id = "node-c" }]

[node]
id = "node-a"
data = "/var/lib/weft"

[listen]
grpc = "127.0.0.1:7400"

[[topics]]
pattern = "plant.*.temp"
retention_age_s = 604800
```
"""

ITEMS: tuple[tuple[str, type[Section]], ...] = (
    ("A peer as a table", Peer),
    ("A table of `topics`", TopicSection),
    ("A table of `history`", HistorySection),
    ("`store` of a table of `history`", StoreSection),
    ("A table of `gateway.emm.rules`", EmmRuleSection),
    ("A table of `gateway.emm.seal`", EmmSealSection),
    ("A table of `gateway.emm.out`", EmmOutSection),
)


def page() -> str:
    return "\n".join((INTRODUCTION, *_sections()))


def _sections() -> Iterator[str]:
    yield "## Top level\n"
    yield from _table(_knobs_of(NodeConfig), ())
    for title, item in ITEMS:
        yield f"### {title}\n\n{item.__doc__}\n"
        yield from _table(item.model_fields, None)
    yield from _sections_in(NodeConfig, ())


def _sections_in(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        section: Any = field.annotation
        if not _is_section(section):
            continue
        within = (*path, name)
        if knobs := _knobs_of(section):
            yield f"## `[{'.'.join(within)}]`\n\n{section.__doc__}\n"
            yield from _table(knobs, within)
        yield from _sections_in(section, within)


def _knobs_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {name: field for name, field in model.model_fields.items() if not _is_section(field.annotation)}


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _table(fields: dict[str, FieldInfo], path: tuple[str, ...] | None) -> Iterator[str]:
    """Rows of a table; with a path, the knobs can be set by variables too."""
    yield "| setting | default | range | meaning |"
    yield "|---|---|---|---|"
    for name, field in fields.items():
        variable = f"<br>`{variable_of((*path, name))}`" if path is not None and name not in TABLES else ""
        cells = (f"`{name}`{variable}", _default(field), _range(field), str(field.description))
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return _shown(field.default)


def _shown(value: Any) -> str:
    match value:
        case None | ():
            return "none"
        case bool():
            return f"`{str(value).lower()}`"
        case Enum():
            return f"`{value.value}`"
        case tuple() if not hasattr(value, "_fields"):
            return ", ".join(map(_shown, value))
        case float():
            return f"`{_plain(value)}`"
        case _:
            return f"`{value}`"


def _range(field: FieldInfo) -> str:
    least, most = (
        next((getattr(each, bound) for each in field.metadata if hasattr(each, bound)), None) for bound in ("ge", "le")
    )
    if least is not None and most is not None:
        return f"{_plain(least)} to {_plain(most)}"
    kind = next((each for each in (field.annotation, *get_args(field.annotation)) if _is_enum(each)), None)
    return "" if kind is None else " or ".join(f"`{each.value}`" for each in kind)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"


if __name__ == "__main__":
    sys.stdout.write(page())
