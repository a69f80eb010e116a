"""The command as a whole: every name that scripts rely on, and a help that does not wait for heavy libraries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_command

from tests.cli.commands import Weft
from tests.up import COMMAND, END_TIMEOUT_S
from weft.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
CLIENT_OPTIONS = ["--node", "--insecure", "--context", "--json"]

# Command -> options, as issue 4 names them.
NAMES = {
    "up": [
        *("--config", "--data", "--node-id", "--listen", "--advertise", "--peer", "--admin", "--insecure"),
        *("--ca-listen", "--ca", "--ca-fingerprint", "--token", "--token-file"),
    ],
    "pub": ["--key", "--header", "--file", "--lines", "--copies", "--deliver-at", "--delay", *CLIENT_OPTIONS],
    "sub": ["--from", "--group", "--count", "--timeout", *CLIENT_OPTIONS],
    "topics": CLIENT_OPTIONS,
    "peers": CLIENT_OPTIONS,
    "groups ls": CLIENT_OPTIONS,
    "groups set": ["--max-deliveries", "--retry-s", "--retry", "--dead-letter", "--node", "--insecure", "--context"],
    "groups drop": ["--node", "--insecure", "--context"],
    "dead ls": CLIENT_OPTIONS,
    "dead show": CLIENT_OPTIONS,
    "dead replay": ["--all", *CLIENT_OPTIONS],
    "dead drop": ["--all", *CLIENT_OPTIONS],
    "later ls": CLIENT_OPTIONS,
    "later cancel": CLIENT_OPTIONS,
    "schedule add": ["--cron", "--zone", "--key", "--header", "--catch-up", "--replace", *CLIENT_OPTIONS],
    "schedule ls": CLIENT_OPTIONS,
    "schedule show": CLIENT_OPTIONS,
    "schedule rm": ["--node", "--insecure", "--context"],
    "schedule pause": ["--node", "--insecure", "--context"],
    "schedule resume": CLIENT_OPTIONS,
    "lag": CLIENT_OPTIONS,
    "explain": ["--origin", *CLIENT_OPTIONS],
    "status": CLIENT_OPTIONS,
    "console": ["--open", "--node", "--insecure", "--context"],
    "context add": ["--node", "--insecure", "--token", "--tls-root", "--tls-certificate", "--tls-key", "--use"],
    "context list": ["--json"],
    "context use": [],
    "context show": ["--json"],
    "context remove": [],
    "log ls": ["--data"],
    "packet decode": [],
    "doctor": ["--config", "--data", "--listen", "--admin", "--peer", "--insecure", "--json"],
}


def commands_below(command: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """The whole name of each command, and whether help hides it."""
    context = Context(command)
    for name in command.list_commands(context):
        below, whole = command.get_command(context, name), f"{path} {name}".strip()
        if hasattr(below, "list_commands"):
            yield from commands_below(below, whole)
        else:
            yield whole, below.hidden


@pytest.mark.parametrize("command", NAMES)
def test_every_command_has_its_options(weft: Weft, command: str) -> None:
    outcome = weft(*command.split(), "--help")
    assert outcome.status == 0
    told = set(re.findall(r"--[a-z-]+", outcome.out))
    assert [name for name in NAMES[command] if name not in told] == []
    assert "[[" not in outcome.out, "brackets around an argument that may be left out come from typer"


def test_the_page_names_every_command_and_option() -> None:
    page = PAGE.read_text()
    for command, options in NAMES.items():
        assert f"weft {command}" in page, command
        assert [name for name in options if f"{name}" not in page] == []


def test_every_command_that_help_shows_is_in_the_documents() -> None:
    pages = "".join(page.read_text() for page in PAGE.parent.glob("*.md"))
    shown = [name for name, hidden in commands_below(get_command(app)) if not hidden]
    assert len(shown) > len(NAMES)
    assert [name for name in shown if f"weft {name}" not in pages] == []


def test_what_lists_answers_to_ls_and_to_list() -> None:
    names = {name for name, _ in commands_below(get_command(app))}
    twins = {"ls": "list", "list": "ls"}
    lists = [name.rsplit(" ", 1) for name in names if name.rsplit(" ", 1)[-1] in twins]
    takes_a_name = {"kv", "log"}  # these list what is inside one thing
    assert len(lists) >= 16
    assert [
        (group, last) for group, last in lists if group not in takes_a_name and f"{group} {twins[last]}" not in names
    ] == []


def test_every_command_has_its_place_in_the_help(weft: Weft) -> None:
    assert "─ Events ─" in weft("--help").out
    assert "─ Commands ─" not in weft("--help").out, "a command without a panel ends up here"


def test_help_does_not_load_what_it_does_not_need() -> None:
    script = (
        "import sys\nfrom weft.cli.main import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('grpc', 'pyarrow', 'rocksdict', 'numpy', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "Show a log" in done.stdout


def test_an_unknown_command_is_a_mistake_of_usage(weft: Weft) -> None:
    assert weft("publish").status == 2
    assert weft("log", "nothing").status == 2


@pytest.mark.parametrize("command", [("context", "list"), ("context", "list", "--json")], ids=["table", "json"])
def test_a_reader_of_a_pipe_that_has_seen_enough_is_no_failure(weft: Weft, command: tuple[str, ...]) -> None:
    """Status 1 comes with a line that says what failed. Here nothing did: it is as if SIGPIPE had ended the command."""
    weft("context", "add", "dev", "--node", "a:7400", "--insecure")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run(
            [*COMMAND, *command], stdout=pipe, stderr=subprocess.PIPE, check=False, timeout=END_TIMEOUT_S
        )
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_version(weft: Weft) -> None:
    assert re.fullmatch(r"weft \d+\.\d+\.\d+\n", weft("--version").out)


def test_a_node_and_a_publisher_start_without_arrow() -> None:
    """It takes 0.15 s and 35 MB, and is loaded when somebody needs it."""
    script = (
        "import sys, weft.node.runtime, weft.cli.pub_work\n"
        "print([name for name in ('pyarrow', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "[]"
