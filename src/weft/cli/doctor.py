"""``weft doctor``: what is wrong with a node and its machine, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import Json


def doctor(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="WEFT_CONFIG", help="weft.toml; flags override it.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The node's data directory.", show_default="weft-data")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="As for weft up.", show_default="127.0.0.1:7400")
    ] = None,
    admin: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="As for weft up.", show_default="127.0.0.1:7480")
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option("--peer", metavar="HOST:PORT", help="A node to dial; may be given again.", show_default=False),
    ] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="As for weft up.")] = False,
    json: Json = False,
) -> None:
    """Look for what is wrong with a node, running or not, and say what to do. Changes nothing.

    Exit status 1 if something is bad; warnings alone are 0. It reads the same settings as 'weft up'.
    """
    from weft.cli.doctor_work import report

    flags = {
        "node.data": data,
        "listen.grpc": listen,
        "listen.admin": admin,
        "peers": peer or None,
        "insecure": insecure or None,
    }
    if not report(config, flags, json):
        raise typer.Exit(1)
