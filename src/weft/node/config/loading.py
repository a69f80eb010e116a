"""From ``weft.toml``, the environment and flags, each above the one before, to one checked configuration.

A knob ``queue_frames_max`` of the section ``link`` is ``WEFT_LINK_QUEUE_FRAMES_MAX`` in the environment. What nobody
knows is refused with the name that was probably meant, and every refusal says where the value came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from weft.configuration import BadConfig, Source, flags, nested, read_file, suggestion, validated
from weft.node.config import NodeConfig

PREFIX: Final = "WEFT_"
FILE_VARIABLE: Final = "WEFT_CONFIG"  # where weft.toml is; read by `weft up`

# Variables of ours that are no knobs: the client's, and those of our own tests.
OTHER_VARIABLES: Final = frozenset({FILE_VARIABLE, "WEFT_CONFIG_DIR", "WEFT_CONTEXT", "WEFT_SOAK", "WEFT_CRASH"})
# What Kubernetes puts into the containers beside a service that is called weft, or weft-something.
SERVICE_VARIABLE: Final = re.compile(
    r"WEFT(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_\w+)?)"
)

TABLES: Final = frozenset(
    {"topics", "history", "rules", "seal", "out"}
)  # lists of tables: only a file has room for them


def load_config(file: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]) -> NodeConfig:
    """The configuration, or BadConfig.

    ``overrides`` are the settings from flags, by dotted names (``{"listen.grpc": "127.0.0.1:0"}``); None: the flag was
    not given.
    """
    sources = [] if file is None else [Source(str(file), read_file(file))]
    return validated(NodeConfig, [*sources, *_from_environment(environ), flags(overrides)])


# --- the environment ---------------------------------------------------------------------------------------------


def knobs() -> Iterator[tuple[str, ...]]:
    """The path of everything that can be set, tables left out: ("insecure",), ("link", "compression"), ..."""
    yield from _knobs_in(NodeConfig)


def _knobs_in(model: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from ((name, *rest) for rest in _knobs_in(section))
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
            raise BadConfig(f"{name} in the environment is not a setting of a node{suggestion(name, VARIABLES)}")
        yield Source(name, nested({".".join(knob): environ[name]}))
