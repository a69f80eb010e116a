"""Structured logs: one form for all, every line with its node, nothing printed unless asked for."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from weft.node.config.sections import LogFormat, LogLevel
from weft.node.logs import configure_logs, node_logger


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Loggers are the process's: put them back."""
    root, weft = logging.getLogger(), logging.getLogger("weft")
    before = (root.handlers[:], root.level, weft.level)
    yield
    root.handlers[:], root.level, weft.level = before
    weft.setLevel(before[2])  # clears the cache of who is enabled


@pytest.mark.req("PL-06", "OBS-01")
def test_json_has_the_event_its_facts_and_the_node() -> None:
    stream = io.StringIO()
    configure_logs(LogLevel.INFO, LogFormat.JSON, stream)
    node_logger("node-a").warning("peer_lost", peer="node-b", backoff_s=0.5)
    document = json.loads(stream.getvalue())
    assert document.pop("timestamp").endswith("Z")
    assert document == {"event": "peer_lost", "level": "warning", "node": "node-a", "peer": "node-b", "backoff_s": 0.5}


def test_lines_for_people() -> None:
    stream = io.StringIO()
    configure_logs(LogLevel.INFO, LogFormat.CONSOLE, stream)
    node_logger("node-a").info("peer_connected", peer="node-b")
    line = stream.getvalue()
    assert line.count("\n") == 1
    assert "peer_connected" in line and "peer=node-b" in line and "node=node-a" in line
    assert "\x1b" not in line  # no colours where nobody looks


def test_what_is_less_important_is_left_out() -> None:
    stream = io.StringIO()
    configure_logs(LogLevel.WARNING, LogFormat.JSON, stream)
    log = node_logger("node-a")
    log.info("peer_connected")
    log.error("log_failed")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["log_failed"]


def test_an_error_has_its_traceback_in_one_object() -> None:
    stream = io.StringIO()
    configure_logs(LogLevel.INFO, LogFormat.JSON, stream)
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        node_logger("node-a").exception("unexpected")
    assert "RuntimeError: boom" in json.loads(stream.getvalue())["exception"]


def test_libraries_speak_in_the_same_form_and_only_of_trouble() -> None:
    stream = io.StringIO()
    configure_logs(LogLevel.DEBUG, LogFormat.JSON, stream)
    logging.getLogger("grpc").info("chatter")
    logging.getLogger("grpc").warning("trouble")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["trouble"]


def test_hostile_text_cannot_forge_a_line() -> None:
    stream = io.StringIO()
    configure_logs(LogLevel.INFO, LogFormat.CONSOLE, stream)
    node_logger("node-a").info("peer_refused", reason="x\n2026-01-01 [info] all_is_well")
    assert stream.getvalue().count("\n") == 1


def test_a_program_with_a_node_in_it_is_not_written_to(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    root.handlers[:] = []
    node_logger("node-a").error("log_failed")
    assert capsys.readouterr() == ("", "")


def test_what_others_say_is_visible_in_lines_for_people_and_exact_for_machines() -> None:
    hostile = "b\x1b[2J\nweft:all_is_well\u202e"
    for form in (LogFormat.CONSOLE, LogFormat.JSON):
        stream = io.StringIO()
        configure_logs(LogLevel.INFO, form, stream)
        node_logger("node-a").info("peer_lost", peer=hostile, reasons=[hostile])
        logging.getLogger("weft.library").warning("it said %s", hostile)
        line, other = stream.getvalue().split("\n")[:-1]
        assert line.isprintable()
        assert other.isprintable()
        if form is LogFormat.JSON:
            assert json.loads(line)["peer"] == hostile
            assert json.loads(other)["event"] == f"it said {hostile}"
        else:
            assert r"peer=b\x1b[2J\nweft:all_is_well\u202e" in line
            assert r"it said b\x1b[2J\nweft:all_is_well\u202e" in other


def test_a_traceback_is_visible_and_has_no_values_of_variables() -> None:
    stream = io.StringIO()
    configure_logs(LogLevel.INFO, LogFormat.CONSOLE, stream)
    secret = "dont" + "-tell"
    try:
        raise RuntimeError(f"\x1b[2J {len(secret)}")
    except RuntimeError:
        node_logger("node-a").exception("step_failed")
    text = stream.getvalue()
    assert r"RuntimeError: \x1b[2J 9" in text
    assert secret not in text
    assert all(line.isprintable() for line in text.split("\n"))
