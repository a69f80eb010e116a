"""Running ``weft`` in this process; ``tests.up`` runs it as a process of its own that is a node."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.up import END_TIMEOUT_S
from weft.cli.main import main

T = TypeVar("T")


def between_commands(step: Coroutine[Any, Any, T]) -> T:
    """Run it to its end. Tests of commands are no coroutines: in this process, each command runs a loop of its own."""
    return asyncio.run(asyncio.wait_for(step, END_TIMEOUT_S))


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Weft:
    """The command in this process, with a directory of contexts of its own."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str], config: Path) -> None:
        self._patch = patch
        self._capture = capture
        self.config = config
        patch.setenv("WEFT_CONFIG_DIR", str(config))
        patch.delenv("WEFT_CONTEXT", raising=False)
        patch.setattr("weft.cli.connection.CONNECT_TIMEOUT_S", END_TIMEOUT_S)  # a busy machine is no person

    def __call__(self, *arguments: str | Path, stdin: bytes = b"") -> Outcome:
        self._patch.setattr(sys, "argv", ["weft", *map(str, arguments)])
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            self._patch.setattr(sys, "stdin", file)
            umask = os.umask(0o022)  # the command's own is for its process, which this one is not
            handlers = logging.getLogger().handlers[:]  # its log goes to what is captured here
            try:
                with pytest.raises(SystemExit) as caught:
                    main()
            finally:
                os.umask(umask)
                logging.getLogger().handlers[:] = handlers
        captured = self._capture.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)
