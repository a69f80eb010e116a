"""How a block is run, by its language."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from tests.docs.blocks import Block
from weft.cli.main import app
from weft.configuration import Source, read_file, validated
from weft.node.config.loading import load_config
from weft.pipelines.catalogue import CATALOGUE, find

WAIT_S: Final = 120.0  # a bound, not an expectation
PIPELINES: Final = {entry.name for entry in CATALOGUE}
PART: Final = ", a part"
Place = Callable[[], Any]  # what an example's function asks for by name, made when it is asked for


def run_python(block: Block, places: Mapping[str, Place]) -> None:
    """Top to bottom; then its ``main``, with what that asks for by the names of its parameters, and its tests."""
    names: dict[str, Any] = {"__name__": f"example of {block.place}"}
    exec(compile(block.code, block.place, "exec"), names)
    main = names.get("main")
    if main is not None and not re.search(r"^\w[\w.]*\(main\(", block.code, re.MULTILINE):
        wanted = inspect.signature(main).parameters
        outcome = main(**{name: places[name]() for name in wanted})
        if inspect.iscoroutine(outcome):
            asyncio.run(asyncio.wait_for(outcome, WAIT_S))
    for name, each in names.items():
        if name.startswith("test_") and callable(each):
            each()


def pipeline_of(block: Block) -> str | None:
    """The one of the mark, or the one that the block's file is named after."""
    stem = (block.file or "").removesuffix(".toml")
    return block.said.partition(",")[0] if block.mark == "settings of" else stem if stem in PIPELINES else None


def check_settings(block: Block, before: Sequence[Block] = ()) -> None:
    """A node's, or those of a pipeline. A part is laid over the last whole file for that pipeline on its page."""
    pipeline = pipeline_of(block)
    parts = [block]
    if block.said.endswith(PART):
        whole = [each for each in before if pipeline_of(each) == pipeline and not each.said.endswith(PART)]
        assert whole, f"{block.place}: a part of what?"
        parts.insert(0, whole[-1])
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory, f"{number}.toml") for number in range(len(parts))]
        for file, part in zip(files, parts, strict=True):
            file.write_text(part.code)
        if pipeline is None:
            load_config(files[0], {}, {})
        else:
            sources = [Source(part.place, read_file(file)) for file, part in zip(files, parts, strict=True)]
            validated(find(pipeline).load().settings, sources)


def check_usage(block: Block) -> None:
    """Lines like ``weft pub TOPIC [--key K]``: the command is there, and every option that is named."""
    for line in block.code.splitlines():
        words = re.findall(r"--[a-z][a-z-]*|[^\s\[\]|]+", line)
        assert words[0] == "weft", f"{block.place}: not a weft command: {line}"
        command: Any = typer.main.get_command(app)
        rest = words[1:]
        while hasattr(command, "list_commands"):
            context = command.make_context("weft", [], resilient_parsing=True)
            found = command.get_command(context, rest[0]) if rest else None
            assert found is not None, f"{block.place}: there is no such command: {line}"
            command, rest = found, rest[1:]
        known = {option for parameter in command.params for option in parameter.opts}
        unknown = {word for word in rest if word.startswith("--")} - known
        assert not unknown, f"{block.place}: {line}: there is no {', '.join(sorted(unknown))}"


def check_json(block: Block) -> None:
    for line in block.code.splitlines():
        json.loads(line)


CHECKS: Final[dict[str, Callable[[Block], None]]] = {"usage": check_usage, "json": check_json}
SHELLS: Final = ("sh", "console")
PICTURES: Final = ("text", "mermaid")  # nothing that anybody could run
LANGUAGES: Final = (*CHECKS, *SHELLS, *PICTURES, "python", "toml")


def looks_like_commands(block: Block) -> bool:
    return re.search(r"^(\$ |weft [a-z]|make [a-z]|docker |pip )", block.code, re.MULTILINE) is not None
