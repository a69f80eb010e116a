"""Groups of commands that are loaded when they are used: ``weft --help`` does not wait for RocksDB and Arrow."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


def deferred(module: str, text: str) -> typer.Typer:
    """A place for the ``app`` of a module; ``text`` is its help."""

    class Deferred(TyperGroup):
        # Any: these types are click's for older versions of typer, and its own for newer ones.
        def list_commands(self, ctx: Any) -> list[str]:
            return _group(module).list_commands(ctx)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return _group(module).get_command(ctx, cmd_name)

    return typer.Typer(cls=Deferred, help=text, no_args_is_help=True, callback=_nothing)


def _group(module: str) -> TyperGroup:
    return typer.main.get_group(import_module(module).app)


def _nothing() -> None:
    """Typer leaves out groups that have neither commands nor a callback."""
