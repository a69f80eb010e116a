"""Which node a command talks to: flags, contexts, the environment, and what is said when there is none."""

from __future__ import annotations

import pytest

from tests.cli.commands import Weft
from tests.transport.held_port import held_port
from tests.up import RunningNode
from weft.cli.connection import DEFAULT_NODE, choose_target
from weft.cli.options import Where
from weft.contexts import Context, Contexts, write_contexts

DEV = Context(("dev:7400",), insecure=True)
PROD = Context(("prod:7400",), token="s3cret", tls_root="/root.pem")
NOTHING = Where(None, False, None)


@pytest.fixture
def environ(weft: Weft) -> dict[str, str]:
    write_contexts(weft.config / "contexts.toml", Contexts("dev", {"dev": DEV, "prod": PROD}))
    return {"WEFT_CONFIG_DIR": str(weft.config)}


def test_told_nothing_the_current_context_counts(environ: dict[str, str]) -> None:
    target = choose_target(NOTHING, environ)
    assert (target.context, target.source) == (DEV, "context dev")


def test_the_environment_names_another(environ: dict[str, str]) -> None:
    assert choose_target(NOTHING, {**environ, "WEFT_CONTEXT": "prod"}).context == PROD


def test_a_flag_is_above_the_environment(environ: dict[str, str]) -> None:
    assert choose_target(Where(None, False, "dev"), {**environ, "WEFT_CONTEXT": "prod"}).context == DEV


def test_keys_of_the_current_context_do_not_go_to_other_nodes(environ: dict[str, str]) -> None:
    target = choose_target(Where(["other:7400"], False, None), environ)
    assert target.context == Context(("other:7400",))


def test_nodes_of_a_named_context_can_be_replaced(environ: dict[str, str]) -> None:
    target = choose_target(Where(["other:7400"], False, "prod"), environ)
    assert target.context == Context(("other:7400",), token="s3cret", tls_root="/root.pem")


def test_without_anything_it_is_the_node_on_this_machine(weft: Weft) -> None:
    target = choose_target(Where(None, True, None), {"WEFT_CONFIG_DIR": str(weft.config)})
    assert (target.context, target.source) == (Context((DEFAULT_NODE,), insecure=True), "the default")


def test_an_unknown_context_is_told(weft: Weft, environ: dict[str, str]) -> None:
    outcome = weft("status", "--context", "absent")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err == "weft: no context is called 'absent' (there are: dev, prod)\n"


def test_a_connection_that_cannot_be_protected_is_refused(weft: Weft) -> None:
    outcome = weft("status", "--node", "127.0.0.1:1")
    assert outcome.status == 1
    assert "use --insecure only for nodes that were started with it" in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_certificate_that_is_gone_is_told(weft: Weft, environ: dict[str, str]) -> None:
    outcome = weft("status", "--context", "prod")
    assert (outcome.status, outcome.err) == (1, "weft: cannot read /root.pem: No such file or directory\n")


def test_a_node_that_is_not_there_is_told(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.cli.connection.CONNECT_TIMEOUT_S", 0.2)
    with held_port() as port:
        address = f"127.0.0.1:{port}"
        outcome = weft("status", "--node", address, "--insecure")
    assert outcome.status == 1
    assert (
        outcome.err == f"weft: no node answers at {address} (--node): cannot connect: Connection refused; is it up?\n"
    )


def test_of_several_nodes_each_has_its_reason(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.cli.connection.CONNECT_TIMEOUT_S", 0.2)
    with held_port() as one, held_port() as other:
        flags = ["--node", f"127.0.0.1:{one}", "--node", f"127.0.0.1:{other}", "--insecure"]
        outcome = weft("status", *flags)
    for port in (one, other):
        assert f"127.0.0.1:{port}: cannot connect: Connection refused" in outcome.err


def test_a_node_that_answers_and_cannot_be_talked_to_is_up(
    weft: Weft, node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.cli.connection.CONNECT_TIMEOUT_S", 0.2)
    outcome = weft("status", "--node", node.admin, "--insecure")
    assert "the peer speaks HTTP/1, not HTTP/2" in outcome.err
    assert "is it up?" not in outcome.err


def test_a_long_wait_for_a_node_is_told(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.cli.connection.CONNECT_TIMEOUT_S", 0.2)
    monkeypatch.setattr("weft.cli.connection.PATIENCE_S", 0.0)
    with held_port() as port:
        outcome = weft("status", "--node", f"127.0.0.1:{port}", "--insecure")
    assert outcome.err.startswith(f"no answer yet from 127.0.0.1:{port} (--node); trying for 0.2 s\n")


def test_a_context_spares_the_flags(weft: Weft, node: RunningNode) -> None:
    weft("context", "add", "dev", "--node", node.grpc, "--insecure")
    assert weft("status", "--json").document["node_id"] == "node-a"
    assert weft("status").out.startswith("node: node-a\n")


def test_the_default_comes_with_a_hint(weft: Weft, node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.cli.connection.DEFAULT_NODE", node.grpc)
    outcome = weft("status", "--json", "--insecure")
    assert outcome.document["node_id"] == "node-a"
    assert f"no --node and no context: trying {node.grpc}" in outcome.err
