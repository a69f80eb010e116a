"""The ``weft`` command: what belongs to all of its parts."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from weft import __version__
from weft.cli import backup, context, groups, mesh
from weft.cli.bench import bench
from weft.cli.console import end_of_pipe, fail, show_warnings
from weft.cli.doctor import doctor
from weft.cli.pub_sub import pub, sub
from weft.cli.request import request, serve
from weft.cli.up import up
from weft.errors import WeftError

# gRPC's own lines are for people who work on gRPC, and a stranger who knocks could fill a log with them.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

OTHERS: Final = 0o077  # all rights of group and others
PIPELINE: Final = "pipeline"  # writes tables, which may well be for others


def deferred(module: str, text: str) -> typer.Typer:
    """A place for the ``app`` of a module; ``text`` is its help.

    The module is loaded when it is used: ``weft --help`` does not wait for RocksDB and Arrow.
    """

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


class Commands(TyperGroup):
    """All commands. When the reader of a pipe closes it, Typer ends with status 1, as after an error; here that gets
    its own status.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here it can still be caught
        except BrokenPipeError:
            end_of_pipe()
        return result


app = typer.Typer(
    name="weft",
    cls=Commands,
    help="Weft, an event mesh for Python and Spark teams.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
# The panels of ``weft --help``, in their order.
EVENTS: Final = "Events"
LOOK: Final = "Look at the mesh"
RUN: Final = "Run nodes"
ACCESS: Final = "Who may do what"
OTHERS_IN: Final = "Spark, devices and other protocols"

for panel, commands in {
    EVENTS: (pub, sub, request, serve),
    LOOK: (mesh.topics, mesh.peers, mesh.lag, mesh.explain, mesh.trace, mesh.status, mesh.top, mesh.console, bench),
    RUN: (up, doctor, mesh.leave, backup.backup, backup.restore, backup.upgrade),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(groups.app, name="groups", rich_help_panel=EVENTS)
app.add_typer(context.app, name="context", rich_help_panel=ACCESS)
for panel, name, module, text in (
    (EVENTS, "dead", "dead", "Events that a group's readers could not handle."),
    (EVENTS, "later", "later", "Events that wait for a later time."),
    (EVENTS, "schedule", "schedule", "Events that the mesh publishes again and again."),
    (EVENTS, "kv", "kv", "Buckets of keys and values: read, write, watch."),
    (EVENTS, "schema", "schema", "Schemas for the payloads of topics."),
    (RUN, "log", "log.commands", "Show a log, check it, repair it, shrink it."),
    (ACCESS, "keys", "keys", "Create, list, show and revoke API keys."),
    (ACCESS, "ca", "ca", "The mesh's certificates: its own CA, or a step-ca."),
    (ACCESS, "trust", "trust", "Which keys of EMM devices are trusted."),
    (OTHERS_IN, PIPELINE, "pipeline", "Spark jobs between the mesh and lake tables."),
    (OTHERS_IN, "emm", "emm.commands", "Send, watch and find devices that speak EMM."),
    (OTHERS_IN, "exmp", "exmp", "Call operations over EXMP, or serve some."),
    (OTHERS_IN, "packet", "packet.commands", "Take apart and put together EMM, EMM-C and EXMP messages."),
):
    app.add_typer(deferred(f"weft.cli.{module}", text), name=name, rich_help_panel=panel)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"weft {__version__}")
        raise typer.Exit


@app.callback()
def options(
    called: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Weft, an event mesh for Python and Spark teams."""
    if called.invoked_subcommand != PIPELINE:
        os.umask(OTHERS)  # only their owner may read logs, keys and contexts, no matter which code made the files


def main() -> None:
    """Entry point: errors that Weft raises on purpose are one line, not a traceback."""
    show_warnings()
    try:
        app()
    except WeftError as error:
        fail(str(error))
