"""From ``weft.toml``, the environment and flags, each above the one before, to one checked configuration.

A knob ``queue_frames_max`` of the section ``link`` is ``WEFT_LINK_QUEUE_FRAMES_MAX`` in the environment. What nobody
knows is refused with the name that was probably meant, and every refusal says where the value came from.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from weft.errors import UsageError
from weft.limits import CONFIG_FILE_BYTES_MAX
from weft.model.topic import quoted
from weft.node.config import NodeConfig
from weft.node.config_sections import Peer, Section, TopicSection

PREFIX: Final = "WEFT_"
FILE_VARIABLE: Final = "WEFT_CONFIG"  # where weft.toml is; read by `weft up`

# Variables of ours that are no knobs: the client's, and those of our own tests.
OTHER_VARIABLES: Final = frozenset({FILE_VARIABLE, "WEFT_CONFIG_DIR", "WEFT_CONTEXT", "WEFT_SOAK", "WEFT_CRASH"})
# What Kubernetes puts into the containers beside a service that is called weft, or weft-something.
SERVICE_VARIABLE: Final = re.compile(
    r"WEFT(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_\w+)?)"
)

TABLES: Final = frozenset({"topics"})  # lists of tables: only a file has room for them
ITEMS: Final[dict[str, type[Section]]] = {"peers": Peer, "topics": TopicSection}
SIMILAR: Final = 0.6  # how much of a name must be right to guess what was meant


class BadConfig(UsageError):
    """The configuration cannot be used; one line for each mistake, with its place."""


@dataclass(frozen=True, slots=True)
class Source:
    """What one place has to say: its name for people, and values by section and key."""

    name: str
    values: Mapping[str, Any]

    def mentions(self, path: Sequence[str | int]) -> bool:
        """Whether it sets what is there, or the whole list or text that it is part of."""
        values: Any = self.values
        for step in path:
            try:
                values = values[step]
            except (KeyError, IndexError, TypeError):
                return values is not self.values and not isinstance(values, Mapping)
        return True


def load_config(file: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]) -> NodeConfig:
    """The configuration, or BadConfig.

    ``overrides`` are what flags say, by dotted names (``{"listen.grpc": "127.0.0.1:0"}``); those that are None were not
    given.
    """
    sources = [] if file is None else [Source(str(file), read_file(file))]
    sources += list(_from_environment(environ))
    sources.append(Source("flags", _nested({name: value for name, value in overrides.items() if value is not None})))
    values: dict[str, Any] = {}
    for source in sources:
        _merge(values, source.values)
    try:
        return NodeConfig.model_validate(values)
    except ValidationError as error:
        lines = [_explain(details, sources) for details in error.errors(include_url=False)]
        raise BadConfig("\n".join(dict.fromkeys(lines))) from None


def read_file(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            text = stream.read(CONFIG_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadConfig(f"cannot read {file}: {error.strerror}") from None
    if len(text) > CONFIG_FILE_BYTES_MAX:
        raise BadConfig(f"{file} is too large for a configuration", limit=CONFIG_FILE_BYTES_MAX)
    try:
        return tomllib.loads(text.decode())
    except UnicodeDecodeError as error:
        raise BadConfig(f"{file} is not UTF-8", at=error.start) from None
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{file} is not TOML: {error}") from None


# --- the environment ---------------------------------------------------------------------------------------------


def knobs() -> Iterator[tuple[str, ...]]:
    """The path of everything that can be set, tables left out: ("insecure",), ("link", "compression"), ..."""
    for name, field in NodeConfig.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from ((name, key) for key in section.model_fields)
        elif name not in TABLES:
            yield (name,)


def variable_of(knob: Sequence[str]) -> str:
    return PREFIX + "_".join(knob).upper()


VARIABLES: Final = {variable_of(knob): knob for knob in knobs()}


def _from_environment(environ: Mapping[str, str]) -> Iterator[Source]:
    """A source for each variable, so that a mistake names it."""
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES or SERVICE_VARIABLE.fullmatch(name):
            continue
        knob = VARIABLES.get(name)
        if knob is None:
            raise BadConfig(f"{name} in the environment is no setting of a node{_suggestion(name, VARIABLES)}")
        yield Source(name, _nested({".".join(knob): environ[name]}))


# --- joining -----------------------------------------------------------------------------------------------------


def _nested(flat: Mapping[str, object]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in flat.items():
        *sections, key = name.split(".")
        table = values
        for section in sections:
            table = table.setdefault(section, {})
        table[key] = value
    return values


def _merge(values: dict[str, Any], above: Mapping[str, Any]) -> None:
    """What is above counts; tables are joined key by key, lists are replaced."""
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = dict(value) if isinstance(value, Mapping) else value


# --- mistakes ----------------------------------------------------------------------------------------------------


def _explain(details: ErrorDetails, sources: Sequence[Source]) -> str:
    """Which knob, what it was set to, where, and what it may be."""
    path = details["loc"]
    source = next((source.name for source in reversed(sources) if path and source.mentions(path)), "")
    where = f" ({'given by flags' if source == 'flags' else f'in {source}'})" if source else ""
    name = _dotted(path)
    if details["type"] == "extra_forbidden":
        *before, key = path
        return f"unknown setting {quoted(name)}{_suggestion(str(key), _names_in(before))}{where}"
    fault = _fault(details)
    if not path or isinstance(details["input"], BaseModel | Mapping):
        return f"{name}: {fault}{where}" if name else f"{fault}{where}"
    return f"{name} = {_shown(details['input'])}: {fault}{where}"


def _fault(details: ErrorDetails) -> str:
    facts = details.get("ctx", {})
    match details["type"]:
        case "value_error":
            return str(facts["error"])
        case "greater_than_equal":
            return f"has to be at least {facts['ge']}"
        case "less_than_equal":
            return f"has to be at most {facts['le']}"
        case "enum":
            return f"has to be {facts['expected']}"
        case "missing":
            return "is missing"
        case "model_type":
            return "has to be a table"
        case "is_instance_of":
            return "has to be text"
        case _:
            return details["msg"][:1].lower() + details["msg"][1:]


def _dotted(path: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _shown(value: object) -> str:
    return quoted(value) if isinstance(value, str) else quoted(repr(value)).strip('"')


def _names_in(path: Sequence[str | int]) -> Sequence[str]:
    """The names that the table at ``path`` knows."""
    if not path:
        return list(NodeConfig.model_fields)
    first = str(path[0])
    section: Any = ITEMS.get(first) or NodeConfig.model_fields[first].annotation
    return list(section.model_fields)  # only tables have names that can be unknown


def _suggestion(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1, cutoff=SIMILAR)
    return f": did you mean {close[0]}?" if close else ""
