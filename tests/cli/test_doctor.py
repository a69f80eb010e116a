"""``weft doctor`` on nodes as users start them: well, ill, running and not."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Outcome, Weft
from tests.transport.held_port import held_port
from tests.up import up


def found(outcome: Outcome, check: str) -> list[dict[str, Any]]:
    return [each for each in outcome.document["findings"] if each["check"] == check]


def verdicts(outcome: Outcome) -> dict[str, set[str]]:
    made: dict[str, set[str]] = {}
    for each in outcome.document["findings"]:
        made.setdefault(each["check"], set()).add(each["verdict"])
        assert bool(each["advice"]) == (each["verdict"] != "ok"), "what to do, where there is something to do"
    return made


@pytest.mark.req("OPS-02", "SEC-07")
def test_two_nodes_that_are_well_and_then_not(weft: Weft, tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with up(first, "--node-id", "a", "--ca-listen", "127.0.0.1:0") as a:
        places = ("--listen", a.grpc, "--admin", a.admin)
        outcome = weft("doctor", "--data", first, *places, "--json")
        assert (outcome.status, outcome.document["ok"]) == (0, True), outcome.out
        told = verdicts(outcome)
        assert told.pop("root key") == {"warning"}
        assert set().union(*told.values()) == {"ok"}
        assert found(outcome, "node")[0]["found"] == "it runs and is ready"
        assert "root-key.pem: move it to a safe place" in found(outcome, "root key")[0]["advice"]

        token = weft("ca", "token", "b", "--data", first).out
        joining = ("--peer", a.grpc, "--ca", f"https://{a.ready['ca']}")
        with up(second, *joining, "--token", "-", stdin=token) as b:
            flags = ("--listen", b.grpc, "--admin", b.admin, "--peer", a.grpc)
            outcome = weft("doctor", "--data", second, *flags, "--json")
            assert outcome.status == 0, outcome.out
            assert found(outcome, "peers")[0]["found"] == f"{a.grpc} is node a of mesh weft"
            assert verdicts(outcome)["CA"] == {"ok"}
            assert set().union(*verdicts(outcome).values()) == {"ok"}
            table = weft("doctor", "--data", second, *flags)
            assert table.status == 0
            assert "0 warning, 0 bad" in table.out and "it runs and is ready" in table.out
            b.end()
        a.end()
    outcome = weft("doctor", "--data", second, *flags, "--json")
    assert (outcome.status, outcome.document["ok"]) == (1, False)
    told = verdicts(outcome)
    assert (told["peers"], told["CA"], told["node"]) == ({"bad"}, {"bad"}, {"ok"})


@pytest.mark.req("OPS-02", "SEC-07")
def test_what_is_wrong_with_a_node_that_does_not_run(weft: Weft, tmp_path: Path) -> None:
    data, config = tmp_path / "data", tmp_path / "weft.toml"
    with up(data, config=weft.config) as node:
        assert weft("pub", "plant.t", "x", "--context", "default").status == 0
        node.end()
    (data / "node-id").chmod(0o644)
    written = [*data.rglob("*.log"), *data.rglob("*.sst")]
    assert written, "what the log has written"
    for file in written:
        file.write_bytes(b"")
    config.write_text("[storage]\ndisk_reserve_bytes = 1099511627776\n[limits]\nconnections_max = 1000000\n")
    with held_port() as port, socket.create_server(("127.0.0.1", 0)) as other:
        admin = f"127.0.0.1:{other.getsockname()[1]}"
        flags = ("--data", data, "--config", config, "--listen", f"127.0.0.1:{port}", "--admin", admin)
        outcome = weft("doctor", *flags, "--peer", "192.0.2.1:0", "--json")
        assert "192.0.2.1:0" in found(outcome, "settings")[0]["found"], "what no node would take is told first"
        outcome = weft("doctor", *flags, "--json")
    assert outcome.status == 1
    told = verdicts(outcome)
    assert told["data directory"] == {"bad"}
    assert "node-id (0644)" in found(outcome, "data directory")[0]["found"]
    assert told["file descriptors"] == {"warning"}
    assert told["disk"] == {"bad"}
    assert told["log"] == {"bad"}
    assert "weft log repair" in found(outcome, "log")[0]["advice"]
    assert "bad" in told["ports"]
    assert f"listen.admin {admin} is in use by another process" in [each["found"] for each in found(outcome, "ports")]
    assert (data / "node-id").stat().st_mode & 0o777 == 0o644, "it only looks"


def test_no_directory_and_a_file_in_its_place(weft: Weft, tmp_path: Path) -> None:
    places = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    assert weft("doctor", "--data", tmp_path / "absent", *places).status == 0
    assert not (tmp_path / "absent").exists()
    file = tmp_path / "file"
    file.touch()
    outcome = weft("doctor", "--data", file, *places, "--json")
    assert outcome.status == 1
    assert verdicts(outcome)["data directory"] == {"bad"}
