"""Commands that deploy/ and its page tell people and machines to run: they exist, with these options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.deploy.files import CHART, DEPLOY, ROOT, compose, unescaped
from weft.cli.main import app

PAGE = ROOT / "docs" / "deployment.md"
SCRIPTS = (DEPLOY / "enrol.sh", CHART / "templates" / "ca.yaml", CHART / "templates" / "NOTES.txt")
WEFT = r"(?<![\w/.-])(?<!install )(?<!upgrade )weft (?=[a-z])"  # not a release of that name
CODE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(text: str) -> Iterator[list[str]]:
    """Each command's words. A line that goes on is one line; comments are none."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        for command in re.split(WEFT, re.sub(r"(^|\s)#.*", "", line))[1:]:
            if words := re.split(r"\s(?:[|;&>]|&&)(?:\s|$)", command)[0].split():
                yield words


def told() -> list[list[str]]:
    """All of them. Of the page, in code only: its prose speaks of weft, too."""
    services = compose()["services"].values()
    texts = [unescaped(text) for service in services for text in (*service["entrypoint"], *service.get("command", ()))]
    texts += [file.read_text() for file in SCRIPTS] + CODE.findall(PAGE.read_text())
    return [words for text in texts for words in commands(text)]


@pytest.mark.req("OPS-01")
def test_every_command_and_option_exists() -> None:
    seen = set()
    for words in told():
        command: Any = typer.main.get_command(app)
        rest = list(words)
        while hasattr(command, "list_commands"):
            context = command.make_context("weft", [], resilient_parsing=True)
            found = command.get_command(context, rest[0]) if rest else None
            assert found is not None, f"weft {' '.join(words)}"
            command = found
            rest.pop(0)
        known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        used = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert used <= known, f"weft {' '.join(words)}: {used - known}"
        seen.add(words[0])
    assert {"up", "ca", "keys", "context"} <= seen, "commands are not found where they were"


def test_commands_are_found_in_scripts() -> None:
    text = (
        "x && exec weft up\nweft ca token b | weft ca enrol --to X  # weft nothing\nweft-enrol /a\nk create weft-ca\n"
    )
    assert list(commands(text)) == [["up"], ["ca", "token", "b"], ["ca", "enrol", "--to", "X"]]
