"""Configuration files of any part: read, laid over each other, checked against a model, and refused in plain words.

A ``Section`` is a table of settings; every refusal says which setting, what it was set to, where, and what it may be.
TOML is read by the standard library; YAML where PyYAML is installed (``weft[spark]`` brings it).
"""

from __future__ import annotations

import re
import tomllib
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from weft.errors import UsageError
from weft.limits import MIB
from weft.model.topic import quoted

CONFIG_FILE_BYTES_MAX: Final = 1 * MIB  # people write a few KiB; 1,024 tables of topics take 150
SIMILAR: Final = 0.6  # how much of a name must be right to guess what was meant
NAME_PART: Final = re.compile(r""""[^"]+"|'[^']+'|[^."']+""")
NAME: Final = re.compile(rf"(?:{NAME_PART.pattern})(?:\.(?:{NAME_PART.pattern}))*")
YAML_SUFFIXES: Final = frozenset({".yaml", ".yml"})

M = TypeVar("M", bound=BaseModel)


class BadConfig(UsageError):
    """The configuration cannot be used; every mistake with its place, in one line: commands print lines."""


class HiddenValue(ValueError):
    """What is wrong with a value that may hold a secret, so that no error repeats the value."""


class Section(BaseModel):
    """A table of settings. Frozen, and it refuses names that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


@dataclass(frozen=True, slots=True)
class Source:
    """The settings from one place: its name for people, and its values by section and key."""

    name: str
    values: Mapping[str, Any]

    def mentions(self, path: Sequence[str | int]) -> bool:
        """Whether the source sets this place, or the whole list or text that contains it."""
        values: Any = self.values
        for step in path:
            try:
                values = values[step]
            except (KeyError, IndexError, TypeError):
                return values is not self.values and not isinstance(values, Mapping)
        return True


FLAGS: Final = "flags"


def flags(overrides: Mapping[str, object]) -> Source:
    """The settings from flags, by dotted names; None: the flag was not given."""
    return Source(FLAGS, nested({name: value for name, value in overrides.items() if value is not None}))


def validated(model: type[M], sources: Sequence[Source]) -> M:
    """The settings of all sources, each above the one before, or BadConfig."""
    values: dict[str, Any] = {}
    for source in sources:
        _merge(values, source.values)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines = [_explain(model, details, sources) for details in error.errors(include_url=False)]
        raise BadConfig("; ".join(dict.fromkeys(lines))) from None


def read_file(file: Path) -> dict[str, Any]:
    """The values in a TOML or YAML file, or BadConfig."""
    try:
        with file.open("rb") as stream:
            data = stream.read(CONFIG_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadConfig(f"cannot read {file}: {error.strerror}") from None
    if len(data) > CONFIG_FILE_BYTES_MAX:
        raise BadConfig(f"{file} is too large for a configuration", limit=CONFIG_FILE_BYTES_MAX)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadConfig(f"{file} is not UTF-8", at=error.start) from None
    if file.suffix.lower() in YAML_SUFFIXES:
        return _read_yaml(file, text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{file} is not TOML: {error}") from None


def nested(flat: Mapping[str, object]) -> dict[str, Any]:
    """Values by dotted names as tables."""
    values: dict[str, Any] = {}
    for name, value in flat.items():
        *sections, key = split_name(name)
        table = values
        for section in sections:
            table = table.setdefault(section, {})
        table[key] = value
    return values


def split_name(name: str) -> list[str]:
    """The parts of a dotted name; a part in quotes may have dots, as in TOML: ``conf."spark.executor.memory"``."""
    parts = [part.strip("\"'") for part in NAME_PART.findall(name)]
    if NAME.fullmatch(name) is None:
        raise BadConfig(
            f"{quoted(name)} is not the name of a setting: write parts with dots between them, in quotes if they "
            "contain dots"
        )
    return parts


def suggestion(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1, cutoff=SIMILAR)
    return f": did you mean {close[0]}?" if close else ""


def _read_yaml(file: Path, text: str) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        raise BadConfig(f"{file} is YAML, and PyYAML is not installed here: use TOML, or pip install pyyaml") from None
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise BadConfig(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise BadConfig(f"{file} has to be a table of named settings")
    return values


def _merge(values: dict[str, Any], above: Mapping[str, Any]) -> None:
    """What is above counts; tables are joined key by key, lists are replaced."""
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        elif isinstance(value, Mapping):
            values[key] = {}
            _merge(values[key], value)  # a copy: what comes above it must not be written into its source
        else:
            values[key] = value


# --- mistakes ----------------------------------------------------------------------------------------------------


def _explain(model: type[BaseModel], details: ErrorDetails, sources: Sequence[Source]) -> str:
    """Which setting, what it was set to, where, and what it may be."""
    path = details["loc"]
    source = next((source.name for source in reversed(sources) if path and source.mentions(path)), "")
    where = f" ({'given by flags' if source == FLAGS else f'in {source}'})" if source else ""
    name = _dotted(path)
    if details["type"] == "extra_forbidden":
        *before, key = path
        return f"unknown setting {quoted(name)}{suggestion(str(key), _names_in(model, before))}{where}"
    fault = _fault(details)
    is_hidden = isinstance(details.get("ctx", {}).get("error"), HiddenValue)
    if not path or is_hidden or isinstance(details["input"], BaseModel | Mapping):
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
        case "enum" | "literal_error":
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


def _names_in(model: type[BaseModel], path: Sequence[str | int]) -> Sequence[str]:
    """The names that the table at ``path`` knows."""
    for step in path:
        if isinstance(step, str) and step in model.model_fields:
            found = _model_within(model.model_fields[step].annotation)
            if found is None:
                return []
            model = found
    return list(model.model_fields)


def _model_within(annotation: Any) -> type[BaseModel] | None:
    """The table that a setting is, or is a list of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_within, typing.get_args(annotation))), None)
