"""A node tells the truth about itself: half-made starts, tokens, descriptors, files that others could read (SEC-07)."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import weft as sdk
from tests.cli.commands import Weft
from tests.cli.conftest import weft as weft
from tests.node.secured import authority_of, secure_config, secured, token_for
from tests.up import COMMAND, END_TIMEOUT_S, SHORT_LOG, RunningNode, up
from weft.cli.secret_input import hide_argument
from weft.contexts import FILE, read_contexts
from weft.errors import UsageError
from weft.node.runtime import Node
from weft.security import CertificateStore, read_keys, tls_directory
from weft.security.api_keys import fits, parse_key_untrusted

STEPS_MAX = 200  # more than a first start has
STORY_TIMEOUT_S = 300


# --- first starts ------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-07")
def test_a_first_start_that_is_killed_at_any_step_heals(tmp_path: Path) -> None:
    """The next start is ready, and the context it leaves has the key that the node knows."""
    command = [sys.executable, "-m", "tests.security.attacks.killed_start", str(tmp_path), str(STEPS_MAX)]
    environ = os.environ | SHORT_LOG
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=STORY_TIMEOUT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    steps = [tuple(map(int, line.split())) for line in ended.stdout.splitlines()]
    assert [first for _, first, _ in steps] == [9] * (len(steps) - 1) + [0], (
        "killed at every step, and then none is left"
    )
    assert len(steps) > 15, "CA, certificates, key, log and context take more than that"
    for step, _, second in steps:
        place = tmp_path / str(step)
        assert second == 0, f"step {step}: {(place / 'second.log').read_text()}"
        (context,) = read_contexts(place / "config" / FILE).contexts.values()
        key_id, secret = parse_key_untrusted(context.token or "")
        (record,) = read_keys(place / "data")
        assert record.id == key_id and fits(secret, record.hash), f"step {step}: nobody has the key"
        assert CertificateStore(place / "data" / "client").load() is not None
        assert not (place / "data" / "client" / "first-key").exists(), f"step {step}: the key is kept in one place"


@pytest.mark.req("SEC-07")
async def test_a_context_that_cannot_be_written_is_written_by_the_next_start(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("not a directory")
    with up(tmp_path / "data", config=config) as node:
        assert "no context was written" in node.said()
        assert "first-key until one is, at this node's next start" in node.said().replace("\n", " ")
        node.end()
    config.unlink()
    with up(tmp_path / "data", config=config) as node:
        await _publishes(node)


async def _publishes(node: RunningNode) -> None:
    async with asyncio.timeout(END_TIMEOUT_S), node.client() as client:
        assert (await client.publish("plant.t", b"x")).first_offset == 0


@pytest.mark.req("SEC-07")
async def test_a_first_start_that_fails_heals(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flags = ("--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--admin", "127.0.0.1:0")
        environ = {**os.environ, "WEFT_CONFIG_DIR": str(tmp_path / "config")}
        command = [*COMMAND, "up", "--data", str(tmp_path / "data"), *flags]
        ended = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=END_TIMEOUT_S, check=False)
        assert (ended.returncode, ended.stdout) == (1, "")
    with up(tmp_path / "data", config=tmp_path / "config") as node:
        await _publishes(node)


# --- the disk ----------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-07")
async def test_a_publisher_is_told_what_it_waits_for(tmp_path: Path) -> None:
    """The SDK's; tests/node/test_disk_watch.py has the log, /readyz and `weft pub`, and the end of it."""
    reserve = 1 << 40
    if shutil.disk_usage(tmp_path).free >= reserve:
        pytest.skip("more than 1 TiB is free here, and no reserve may be larger")
    settings = tmp_path / "weft.toml"
    settings.write_text(f"[storage]\ndisk_reserve_bytes = {reserve}\n")

    class Told(sdk.Hooks):
        def __init__(self) -> None:
            self.reason = asyncio.get_running_loop().create_future()

        def on_retry(self, purpose: str, delay_s: float, reason: str) -> None:
            if "disk is full" in reason and not self.reason.done():
                self.reason.set_result(reason)

    with up(tmp_path / "data", "--config", str(settings)) as node:
        context = node.context
        assert context.tls_root is not None
        hooks = Told()
        tls = sdk.TlsFiles(Path(context.tls_root))
        impatient = sdk.Options(close_timeout_s=0.1)
        connecting = sdk.connect(node.grpc, token=context.token, tls=tls, hooks=hooks, options=impatient)
        async with asyncio.timeout(END_TIMEOUT_S), connecting as client:
            publishing = client.publish_nowait("plant.t", b"x")
            assert f"reserve {reserve}" in await hooks.reason
            assert not publishing.done(), "it still waits"


# --- tokens ------------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-07")
def test_a_token_among_the_arguments_is_gone_from_the_list_of_processes(tmp_path: Path) -> None:
    with up(tmp_path / "a", "--node-id", "a", "--ca-listen", "127.0.0.1:0") as first:
        ca = Path(tmp_path / "a")
        made = subprocess.run(
            [*COMMAND, "ca", "token", "b", "--data", str(ca)], capture_output=True, text=True, check=True, timeout=60
        )
        token = made.stdout.strip()
        flags = ("--peer", first.grpc, "--ca", f"https://{first.ready['ca']}")
        with up(tmp_path / "b", *flags, "--token", token) as second:
            shown = Path(f"/proc/{second.process.pid}/cmdline").read_bytes()
            assert token.encode() not in shown
            assert b"--token\0" + b"x" * len(token) + b"\0" in shown
            assert str(tmp_path / "b").encode() in shown, "the rest is as it was"
            second.end_quietly()


@pytest.mark.req("SEC-07")
def test_a_token_comes_from_a_file(tmp_path: Path) -> None:
    with up(tmp_path / "a", "--node-id", "a", "--ca-listen", "127.0.0.1:0") as first:
        made = subprocess.run(
            [*COMMAND, "ca", "token", "b", "--data", str(tmp_path / "a")],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        file = tmp_path / "token"
        file.touch(mode=0o600)
        file.write_text(made.stdout)
        flags = ("--peer", first.grpc, "--ca", f"https://{first.ready['ca']}", "--token-file", str(file))
        with up(tmp_path / "b", *flags) as second:
            assert second.ready["node"] == "b"


@pytest.mark.req("SEC-07")
@pytest.mark.parametrize("wrong", [{"node__id": "c"}, {"node__mesh": "plant"}], ids=["id", "mesh"])
async def test_a_slip_does_not_spend_the_token(tmp_path: Path, wrong: dict[str, Any]) -> None:
    async with secured(tmp_path, time.time(), "a") as (first,):
        token = token_for(authority_of(first), "b", time.time())
        options = {"security__ca_url": f"https://{first.protection.ca_address}", "security__token": token}
        with pytest.raises(UsageError, match=r"the token is for node b of mesh weft.*the token was not used"):
            await Node(secure_config(tmp_path / "b", "b", **options, **wrong)).start()
        assert not (tmp_path / "b").exists(), "nor is anything written"
        second = Node(secure_config(tmp_path / "b", "b", **options))
        await second.start()
        await second.stop()


# --- the root's key ----------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-07")
def test_the_roots_key_is_kept_off_the_machine(weft: Weft, tmp_path: Path) -> None:
    data, safe = tmp_path / "data", tmp_path / "safe"
    safe.mkdir()
    key = safe / "root.key"
    for place, words in (
        (data / "ca" / "key", "there is no directory"),
        (safe / "absent" / "key", "there is no directory"),
    ):
        assert words in weft("ca", "init", "--data", data, "--offline-root", place).err
    data.mkdir(mode=0o700)
    refused = weft("ca", "init", "--data", data, "--offline-root", data / "k")
    assert "keep the root's key somewhere else" in " ".join(refused.err.split())  # lines are as long as the screen
    made = weft("ca", "init", "--data", data, "--offline-root", key)
    assert (made.status, made.err) == (0, "")
    assert key.stat().st_mode & 0o777 == 0o600
    assert not (data / "ca" / "root-key.pem").exists()
    assert "say where it is kept (--root-key FILE)" in weft("ca", "rotate", "--data", data).err
    assert weft("ca", "rotate", "--data", data, "--root-key", key).status == 0
    other = tmp_path / "other"
    assert "move it to a safe place off this machine" in weft("ca", "init", "--data", other).err.replace("\n", " ")
    theirs = other / "ca" / "root-key.pem"
    assert "that of another CA" in weft("ca", "rotate", "--data", data, "--root-key", theirs).err
    with up(data) as node:
        assert "root_key_here" not in node.said()


@pytest.mark.req("SEC-07")
def test_a_start_asks_for_the_roots_key_to_be_moved(tmp_path: Path) -> None:
    with up(tmp_path / "data") as node:
        (asked,) = [each for each in node.logged() if each["event"] == "root_key_here"]
        assert str(tmp_path / "data" / "ca" / "root-key.pem") in asked["advice"]
        assert "move it to a safe place" in asked["advice"]


# --- descriptors -------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-04")
def test_a_node_takes_the_descriptors_that_it_may_have_and_says_how_many(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with up(tmp_path / "data", "--insecure") as node:
            (told,) = [each for each in node.logged() if each["event"] == "files_shared_out"]
            assert (told["before"], told["allowed"]) == (256, hard)
            lines = Path(f"/proc/{node.process.pid}/limits").read_text().splitlines()
            (line,) = [each for each in lines if each.startswith("Max open files")]
            assert line.split()[3:5] == [str(hard)] * 2
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# --- files that others can read ----------------------------------------------------------------------------------


@pytest.mark.req("SEC-07")
def test_a_data_directory_that_others_can_read_is_closed_with_a_word(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(data) as node:
        node.end_quietly()
    data.chmod(0o755)
    (data / "node-id").chmod(0o644)
    (tls_directory(data) / "root.pem").chmod(0o644)
    with up(data) as node:
        (told,) = [each for each in node.logged() if each["event"] == "data_was_open"]
        assert (told["to"], told["count"], told["level"]) == ("everybody", 3, "warning")
        assert "may have read" in told["advice"]
        assert data.stat().st_mode & 0o777 == 0o700
        assert (data / "node-id").stat().st_mode & 0o777 == 0o600


def test_what_is_not_among_the_arguments_is_not_overwritten() -> None:
    assert not hide_argument("a text that is not among the arguments of this process")
    assert not hide_argument("")
