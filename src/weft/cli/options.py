"""Options that client commands share. Light on purpose: ``weft --help`` loads neither gRPC nor Arrow.

Command modules hold the options only; each loads what does the work when it is called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, NamedTuple, NoReturn

import typer

from weft.cli.console import fail

INTERRUPTED: Final = 130  # the status after Ctrl-C, as a shell has it

Nodes = Annotated[
    list[str] | None,
    typer.Option("--node", metavar="HOST:PORT", help="A node to connect to; may be given again.", show_default=False),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Plain text, for a node that was started with --insecure.")]
ContextName = Annotated[
    str | None, typer.Option("--context", metavar="NAME", help="Use this context (weft context).", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text.")]

# Of commands for devices.
Quic = Annotated[bool, typer.Option("--quic", help="Use QUIC, so that nobody on the way can read the packets.")]
QuicRoot = Annotated[
    Path | None,
    typer.Option(
        "--root",
        metavar="FILE",
        help="Root certificates (PEM) to check the other side with. Unset: those of --data.",
        show_default=False,
    ),
]
QuicCertificate = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        metavar="FILE",
        help="With --quic: the certificate to show (PEM), if it is not that of --data.",
        show_default=False,
    ),
]
QuicKey = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="Its private key (PEM, EC).", show_default=False)
]


class Where(NamedTuple):
    """What flags say about whom to connect to."""

    nodes: list[str] | None
    insecure: bool
    context: str | None


def misused(message: str) -> NoReturn:
    """The command line itself is wrong: one line and status 2."""
    fail(message, status=2)
