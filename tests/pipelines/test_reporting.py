"""The thread that tells the mesh of a run, when the run is over quickly."""

from __future__ import annotations

import threading
from typing import Any

import pytest

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

    def __init__(self) -> None:
        self.put_names: list[str] = []
        self.is_closed = False

    def kv(self, _: str) -> Bucket:
        return self

    def put(self, name: str, _value: bytes, **_options: Any) -> None:
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
