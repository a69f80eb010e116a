"""Running ``weft``: in this process, or as a process of its own that is a node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mesh.processes import ended_in_time
from weft.cli.main import main

END_TIMEOUT_S = 60


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
            with pytest.raises(SystemExit) as caught:
                main()
        captured = self._capture.readouterr()
        return Outcome(int(caught.value.code or 0), captured.out, captured.err)


@dataclass(frozen=True)
class RunningNode:
    """``weft up`` that has said ready."""

    process: subprocess.Popen[str]
    grpc: str
    admin: str

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--node", self.grpc, "--insecure")

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(END_TIMEOUT_S)


@contextmanager
def running_node(data: Path, *flags: str) -> Iterator[RunningNode]:
    """A node on free ports; its JSON log says which."""
    command = [sys.executable, "-c", "from weft.cli.main import main; main()", "up", "--data", str(data), "--insecure"]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json", *flags]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    with started(command, environ) as node:
        yield node


@contextmanager
def started(command: Sequence[str], environ: Mapping[str, str]) -> Iterator[RunningNode]:
    """A node that logs JSON and has said ready."""
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environ) as process,
    ):
        try:
            assert process.stdout is not None
            with ended_in_time(process):
                line = process.stdout.readline()
            log.seek(0)
            text = log.read()
            assert line == "ready\n", text
            lines = (json.loads(each) for each in text.splitlines() if each.startswith("{"))
            ready = next(each for each in lines if each["event"] == "node_ready")
            yield RunningNode(process, ready["grpc"], ready["admin"])
        finally:
            if process.poll() is None:
                process.kill()
