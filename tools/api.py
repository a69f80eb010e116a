"""``make api``: write down what is public, one line each, in docs/api.txt, so that a change of it shows in a diff.

Public is what ``__all__`` of the packages below names, with the public methods of its classes, the commands of
``weft`` with their options, and the metrics of a node. `git diff v1.0.0 -- docs/api.txt` says what changed since then.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from weft.cli.main import app

PACKAGES: Final = (
    "weft.client", "weft.sync", "weft.model", "weft.testing", "weft.spark", "weft.emm", "weft.emm_compact", "weft.exmp",
    "weft.coaty", "weft.schema",
)  # fmt: skip
ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
METRIC: Final = re.compile(r"^\| `(weft_\w+)`", re.MULTILINE)
DOCS: Final = Path(__file__).parents[1] / "docs"
FILE: Final = DOCS / "api.txt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    now = listing()
    if not parser.parse_args().check:
        FILE.write_text(now)
    elif FILE.read_text() != now:
        sys.exit(f"{FILE} does not say what is public now: run `make api`, and look at the difference")


def listing() -> str:
    parts = [*python(), *commands(), *metrics()]
    return "\n".join(parts) + "\n"


def python() -> Iterator[str]:
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in sorted(module.__all__):
            yield from _described(f"{package}.{name}", getattr(module, name))


def _described(path: str, found: Any) -> Iterator[str]:
    if inspect.isclass(found):
        bases = ", ".join(base.__name__ for base in found.__bases__ if base is not object)
        yield f"class {path}({bases})"
        for name in sorted(vars(found)):
            member = inspect.getattr_static(found, name)
            if not name.startswith("_") or name == "__init__":
                yield from _member(f"{path}.{name}", member)
    elif callable(found):
        yield f"{path}{_signature(found)}"
    else:
        yield f"{path}: {type(found).__name__}"


def _member(path: str, member: Any) -> Iterator[str]:
    if isinstance(member, classmethod | staticmethod):
        member = member.__func__
    if inspect.isfunction(member):
        yield f"  {'async ' if inspect.iscoroutinefunction(member) else ''}{path}{_signature(member)}"
    elif isinstance(member, property):
        yield f"  {path}: property"
    elif inspect.isdatadescriptor(member):  # a field
        yield f"  {path}"


def _signature(found: Any) -> str:
    try:
        return ADDRESS.sub("", str(inspect.signature(found)))
    except ValueError:
        return "(...)"


def commands() -> Iterator[str]:
    yield from _command("weft", typer.main.get_command(app))


def _command(path: str, command: Any) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if inner is not None:
        context = typer.Context(command)
        for name in sorted(command.list_commands(context)):
            yield from _command(f"{path} {name}", command.get_command(context, name))
        return
    options = [
        "/".join(parameter.opts) if parameter.opts[0].startswith("-") else parameter.name.upper()
        for parameter in command.params
        if "--help" not in parameter.opts
    ]
    yield " ".join((path, *options))


def metrics() -> Iterator[str]:
    """As docs/metrics.md lists them, which a test holds against a running node."""
    yield from (f"metric {name}" for name in sorted(set(METRIC.findall((DOCS / "metrics.md").read_text()))))


if __name__ == "__main__":
    main()
