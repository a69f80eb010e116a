"""The thread that tells the mesh of a run, when the run is over quickly."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

from weft.client import Unauthenticated
from weft.errors import WeftError
from weft.pipelines.records import RunRecord
from weft.pipelines.reporting import CLOSE_TIMEOUT_S, Reporter


class LateThread(threading.Thread):
    """Begins when somebody waits for its end: on a busy machine, all has been said by then."""

    def start(self) -> None:
        """Not yet."""

    def join(self, timeout: float | None = None) -> None:
        assert timeout == CLOSE_TIMEOUT_S
        super().start()
        super().join(timeout)


class Bucket:
    """A client with one bucket."""

    def __init__(self, refusal: WeftError | None = None) -> None:
        self._refusal = refusal
        self.put_names: list[str] = []
        self.is_closed = False

    def kv(self, _: str) -> Bucket:
        return self

    def put(self, name: str, _value: bytes, **_options: Any) -> None:
        if self._refusal is not None:
            raise self._refusal
        self.put_names.append(name)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.req("SEE-01")
@pytest.mark.parametrize("told", [["night"], []])
def test_the_last_word_of_a_run_does_not_wait(monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    monkeypatch.setattr("weft.pipelines.reporting.threading.Thread", LateThread)
    bucket: Any = Bucket()
    reporter = Reporter(lambda: bucket, lambda line: None)
    for name in told:
        reporter.tell(RunRecord(name, "archive", 1, "local[2]", "a.toml", 1, 2, "ended"))
    reporter.close()
    assert not any(isinstance(each, LateThread) for each in threading.enumerate()), "it still waits for more"
    assert (bucket.put_names, bucket.is_closed) == (told, bool(told))


@pytest.mark.req("SEE-01")
def test_a_key_that_was_replaced_is_taken_up() -> None:
    """As docs/security.md has it: the new one is written into its file, and the old one is revoked."""
    old, new = Bucket(Unauthenticated("the key was revoked")), Bucket()
    clients: list[Any] = [old, new]
    refused = threading.Event()
    reporter = Reporter(lambda: clients.pop(0), lambda line: refused.set())
    record = RunRecord("night", "archive", 1, "local[2]", "a.toml", 1, 2, "running")
    reporter.tell(record)
    assert refused.wait(CLOSE_TIMEOUT_S)
    reporter.tell(msgspec.structs.replace(record, state="ended"))
    reporter.close()
    assert (old.is_closed, new.put_names, new.is_closed) == (True, ["night"], True)
