"""The systemd unit: its command is one that ``weft up`` takes, and it fits what nodes say when they end."""

from __future__ import annotations

import shlex
from configparser import ConfigParser
from pathlib import Path

import typer

from weft.cli.main import app
from weft.cli.up_work import TWIN_STATUS

UNIT = Path(__file__).parents[2] / "deploy" / "weft.service"


def test_the_unit_starts_a_node_with_options_that_there_are() -> None:
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation says
    unit.read(UNIT)
    service = unit["Service"]
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert program.endswith("/weft") and command == "up"
    up = typer.main.get_command(app).commands["up"]  # type: ignore[attr-defined]
    known = {name for parameter in up.params for name in parameter.opts}
    assert {each for each in arguments if each.startswith("--")} <= known
    assert int(service["RestartPreventExitStatus"]) == TWIN_STATUS
    assert service["KillSignal"] == "SIGTERM"
