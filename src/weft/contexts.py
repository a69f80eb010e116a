"""Contexts: named addresses and keys, so that nobody types them twice.

They are kept in ``contexts.toml`` below ``~/.config/weft`` (or ``$WEFT_CONFIG_DIR``). Only its owner may read it,
because it can hold tokens.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from weft.errors import UsageError
from weft.limits import MIB

CONTEXTS_FILE_BYTES_MAX: Final = 1 * MIB  # hundreds of contexts with long tokens
FILE: Final = "contexts.toml"
CONTEXT_VARIABLE: Final = "WEFT_CONTEXT"
DIRECTORY_VARIABLE: Final = "WEFT_CONFIG_DIR"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. It is a ``msgspec.Struct``, which reads and checks itself from TOML's values. Paths are to PEM
    files."""

    nodes: tuple[str, ...]
    insecure: bool = False
    token: str | None = None
    tls_root: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None


class Contexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All entries, and the name of the one that is used when none is named."""

    current: str | None = None
    contexts: dict[str, Context] = {}

    def get(self, name: str) -> Context:
        try:
            return self.contexts[name]
        except KeyError:
            known = ", ".join(sorted(self.contexts)) or "none yet"
            raise UsageError(f"no context is called '{name}' (there are: {known})") from None

    def added(self, name: str, context: Context) -> Contexts:
        """With this one. The first becomes the current one."""
        if not NAME.fullmatch(name):
            raise UsageError(f"'{name}' is not a name for a context: use at most 64 letters, digits, '-', '_' and '.'")
        return Contexts(self.current or name, {**self.contexts, name: context})

    def removed(self, name: str) -> Contexts:
        self.get(name)
        left = {each: context for each, context in self.contexts.items() if each != name}
        return Contexts(None if self.current == name else self.current, left)

    def using(self, name: str) -> Contexts:
        self.get(name)
        return Contexts(name, self.contexts)


def contexts_path(environ: Mapping[str, str]) -> Path:
    chosen = environ.get(DIRECTORY_VARIABLE)
    return (Path(chosen) if chosen else Path.home() / ".config" / "weft") / FILE


def chosen_context(name: str | None, environ: Mapping[str, str]) -> Context:
    """The context with that name, else the environment's, else the current one; UsageError if there is none."""
    contexts = read_contexts(contexts_path(environ))
    chosen = name or environ.get(CONTEXT_VARIABLE) or contexts.current
    if chosen is None:
        raise UsageError("no nodes were given and there is no context: pass host:port, or see `weft context`")
    return contexts.get(chosen)


def read_contexts(path: Path) -> Contexts:
    """The content of the file; nothing if there is none."""
    try:
        with path.open("rb") as stream:
            data = stream.read(CONTEXTS_FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > CONTEXTS_FILE_BYTES_MAX:
        raise UsageError(f"{path} is too large", limit=CONTEXTS_FILE_BYTES_MAX)
    try:
        return msgspec.convert(tomllib.loads(data.decode()), Contexts)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path} is damaged: {error}; correct it, or remove it and add the contexts again") from None


def write_contexts(path: Path, contexts: Contexts) -> None:
    """Replace the file as a whole. It is never readable by others."""
    fresh = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in _lines(contexts))
            stream.flush()
            os.fsync(stream.fileno())  # the only copy of a node's first key may be in it
        fresh.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _lines(contexts: Contexts) -> Iterator[str]:
    if contexts.current is not None:
        yield f"current = {_toml(contexts.current)}"
    for name, context in sorted(contexts.contexts.items()):
        yield ""
        yield f"[contexts.{_toml(name)}]"
        for key, value in msgspec.structs.asdict(context).items():
            if value is not None:
                yield f"{key} = {_toml(value)}"


def _toml(value: object) -> str:
    """Text, truth values and lists look in TOML as they do in JSON, but for one character."""
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
