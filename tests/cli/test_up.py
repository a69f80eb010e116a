"""``weft up``: ready when it serves, drained by a signal, gone at once by a second one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import weft as weft_package
from tests.cli.commands import Weft
from tests.up import COMMAND, END_TIMEOUT_S, RunningNode, up
from weft.cli import up_work
from weft.doors.descriptors import FileLimit, file_limit
from weft.errors import StorageError, UsageError
from weft.model import Batch, NodeId
from weft.node.config import NodeConfig
from weft.node.identity import settle_node_id
from weft.node.protection import Plain

CONFIG = NodeConfig(insecure=True)


# --- a real node -------------------------------------------------------------------------------------------------


@pytest.mark.req("PL-01", "OBS-01")
def test_a_node_serves_and_a_signal_drains_it(weft: Weft, tmp_path: Path) -> None:
    with up(tmp_path / "data", "--insecure", "--node-id", "node-a") as node:
        ready = httpx.get(f"http://{node.admin}/readyz", trust_env=False, timeout=END_TIMEOUT_S)
        assert ready.json() == {"ready": True, "reasons": []}
        assert weft("pub", "kept", "x", *node.flags).status == 0
        assert node.end(signal.SIGTERM) == 0
    event = weft("log", "cat", ">", "--data", tmp_path / "data", "--json").document
    assert (event["topic"], event["origin"], event["payload"]) == ("kept", "node-a", "x")


async def test_a_node_does_not_load_pandas(tmp_path: Path) -> None:
    """pyarrow would, for nothing, where it is installed: with the first large batch, or just before it."""
    large = Batch.from_columns([b"x"] * 1_000, 0, [b"key"] * 1_000)

    with up(tmp_path / "data", "--insecure") as node:
        async with asyncio.timeout(END_TIMEOUT_S), weft_package.connect(node.grpc, insecure=True) as client:
            await client.publish_batch("many", large)
        mapped = Path(f"/proc/{node.process.pid}/maps").read_text()
        assert "pyarrow" in mapped
        assert "pandas" not in mapped


def test_arrow_works_from_its_first_array_on_where_pandas_is_kept_out() -> None:
    """Gateways make theirs while a node starts."""
    script = """
from weft.cli.up_work import _without_pandas
with _without_pandas():
    import pyarrow
    print(pyarrow.array(["x"]).to_pylist())
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=END_TIMEOUT_S, check=False)
    assert done.stdout == "['x']\n", done.stderr


def test_the_data_of_another_node_is_not_touched(weft: Weft, tmp_path: Path) -> None:
    settle_node_id(tmp_path / "data", NodeId("node-a"))
    free = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    outcome = weft("up", "--data", tmp_path / "data", "--node-id", "node-b", "--insecure", *free)
    assert (outcome.status, outcome.out) == (1, "")
    assert "belongs to node node-a, not node-b" in outcome.err


# --- its data directory ------------------------------------------------------------------------------------------


async def publish(node: RunningNode, payload: bytes) -> None:
    async with asyncio.timeout(END_TIMEOUT_S), node.client() as client:
        await client.publish("formulas", payload)


def open_to_others(directory: Path) -> list[str]:
    """What group or others have any right to, links aside: theirs is what they point to."""
    entries = (directory, *directory.rglob("*"))
    return [str(each) for each in entries if not each.is_symlink() and each.stat().st_mode & 0o077]


@pytest.mark.req("SEC-01")
async def test_nobody_else_can_read_the_data(tmp_path: Path) -> None:
    """A directory that was there before, for all to read, holds events that are for nobody else to read."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir(mode=0o755)
    elsewhere.mkdir(mode=0o755)
    (elsewhere / "file").touch(0o644)
    (data / "link").symlink_to(elsewhere)
    (data / "linked-file").symlink_to(elsewhere / "file")
    with up(data) as node:
        await publish(node, b"for nobody else")
        assert open_to_others(data) == []
        (told,) = [each for each in node.logged() if each["event"] == "data_was_open"]
        assert (told["level"], told["directory"], told["to"], told["first"]) == (
            "warning",
            str(data),
            "everybody",
            ". (0755)",
        )
        assert node.end() == 0
    assert open_to_others(data) == []
    assert sorted(open_to_others(elsewhere)) == [str(elsewhere), str(elsewhere / "file")], "links lead to other places"

    entries = [each for each in (data, *data.rglob("*")) if not each.is_symlink()]
    for each in entries:  # as an older version left it, or somebody opened it
        each.chmod(0o750 if each.is_dir() else 0o640)
    with up(data) as node:
        assert open_to_others(data) == []
        (told,) = [each for each in node.logged() if each["event"] == "data_was_open"]
        assert (told["to"], told["count"]) == ("its group", len(entries))
    with up(data) as node:
        assert [each for each in node.logged() if each["event"].startswith("data_")] == [], "nothing to say"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")
def test_a_data_directory_of_somebody_else_is_used_and_spoken_of(tmp_path: Path) -> None:
    """As a volume in Kubernetes can be: it is root's, and open to the group of the pod."""
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, 10001, -1)
    data.chmod(0o2770)
    with up(data) as node:
        (told,) = [each for each in node.logged() if each["event"].startswith("data_")]
        assert (told["event"], told["level"], told["to"]) == ("data_stays_open", "warning", "its group")
        assert told["first"] == ". (2770, of user 10001)"
        assert open_to_others(data) == [str(data)], "what the node makes there is closed all the same"


def test_a_directory_that_all_users_share_is_no_place_for_data(weft: Weft, tmp_path: Path) -> None:
    data = tmp_path / "like-tmp"
    data.mkdir()
    data.chmod(0o1777)
    outcome = weft("up", "--data", data, "--insecure", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    assert (outcome.status, outcome.out) == (1, "")
    assert "like-tmp is shared by all users of this machine: give the node its own directory" in outcome.err
    assert (data.stat().st_mode & 0o7777, list(data.iterdir())) == (0o1777, [])


def test_commands_that_write_data_leave_nothing_open(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    device = ("--node-id", "22222222-2222-4222-8222-222222222222", "--key-id", "00000001", "--hmac-key", "00" * 16)
    for arguments in (("ca", "init"), ("keys", "create", "--name", "a", "--admin"), ("trust", "add", *device)):
        subprocess.run([*COMMAND, *arguments, "--data", str(data)], check=True, timeout=END_TIMEOUT_S)
    assert open_to_others(data) == []
    with up(data, "--insecure") as node:
        assert node.end() == 0
    for each in (data / "db", *(data / "db").rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    subprocess.run([*COMMAND, "log", "compact", ">", "--data", str(data)], check=True, timeout=END_TIMEOUT_S)
    assert open_to_others(data) == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--peer", "127.0.0.1:1"), "has no certificate of their mesh: `weft ca token NODE_ID --data DIR`"),
        (("--ca", "https://127.0.0.1:1"), "has no certificate yet"),
        (("--token", "nonsense"), "token"),
        (("--ca-listen", "0.0.0.0:7443"), "nodes cannot be sent to 0.0.0.0:7443"),
        (("--insecure", "--listen", "0.0.0.0:7400"), "loopback addresses"),
        (("--insecure", "--peer", "10.0.0.1:7400"), "peer 10.0.0.1:7400"),
        (("--insecure", "--listen", "nonsense"), 'listen.grpc = "nonsense"'),
        (("--insecure", "--node-id", "a b"), 'node.id = "a b"'),
        (("--insecure", "--log-level", "loud"), "log.level = \"loud\": has to be 'debug'"),
        (("--config", "/absent/weft.toml"), "cannot read /absent/weft.toml"),
    ],
)
def test_a_node_that_cannot_be_is_not_started(weft: Weft, tmp_path: Path, flags: tuple[str, ...], message: str) -> None:
    outcome = weft("up", "--data", tmp_path / "data", "--admin", "127.0.0.1:0", *flags)
    assert (outcome.status, outcome.out) == (1, "")
    assert message in outcome.err
    assert not (tmp_path / "data").exists()


def test_a_file_is_no_place_for_data(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a directory")
    outcome = weft("up", "--data", tmp_path / "data", "--admin", "127.0.0.1:0")
    assert (outcome.status, outcome.err) == (
        1,
        f"weft: {tmp_path / 'data'} is a file: --data (node.data) is the directory of a node\n",
    )


def test_a_token_that_does_not_come_through_the_pipe_is_missed(weft: Weft, tmp_path: Path) -> None:
    """As after ``weft ca token ... | weft up --token -`` when the first command has failed."""
    outcome = weft("up", "--data", tmp_path / "data", "--token", "-")
    assert (outcome.status, outcome.err) == (2, "weft: --token is -, and there is nothing on standard input\n")
    assert not (tmp_path / "data").exists()


def test_flags_are_above_the_environment_and_that_above_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[NodeConfig] = []

    async def run(config: NodeConfig, files: FileLimit) -> None:
        seen.append(config)

    monkeypatch.setattr(up_work, "run", run)
    monkeypatch.setattr(up_work, "configure_logs", lambda *_: None)
    file = tmp_path / "weft.toml"
    file.write_text("insecure = true\n[node]\nid = 'file'\nmesh = 'file'\n[log]\nlevel = 'error'")
    monkeypatch.setenv("WEFT_NODE_ID", "environment")
    monkeypatch.setenv("WEFT_NODE_MESH", "environment")
    up_work.serve(file, {"node.id": "flag", "node.data": None})
    assert (seen[0].node.id, seen[0].node.mesh, seen[0].log.level) == ("flag", "environment", "error")


# --- a node that does as it is told ------------------------------------------------------------------------------


class StandIn:
    """A node without insides, for what ``weft up`` itself does."""

    def __init__(self) -> None:
        self.grpc_address = "127.0.0.1:7400"
        self.console_url = ""
        self.protection = Plain(CONFIG)
        self.calls: list[str] = []
        self.failure: StorageError | None = None
        self.on_start: Callable[[], None] = lambda: None
        self.on_wait: Callable[[], None] = lambda: None
        self.start_blocks = False
        self.start_error: Exception | None = None

    async def start(self) -> None:
        self.calls.append("start")
        self.on_start()
        if self.start_blocks:
            await asyncio.Event().wait()
        if self.start_error is not None:
            raise self.start_error

    async def wait_asked_to_leave(self) -> None:
        await asyncio.Event().wait()

    async def wait_failed(self) -> StorageError:
        self.on_wait()
        if self.failure is None:
            await asyncio.Event().wait()
        assert self.failure is not None
        return self.failure

    async def stop(self, drain: bool = True) -> None:
        self.calls.append(f"stop drain={drain}")


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    node = StandIn()
    monkeypatch.setattr(up_work, "Node", lambda config, files: node)
    return node


def signal_self(number: signal.Signals) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_ready_is_said_and_a_signal_drains(
    stand_in: StandIn, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    stand_in.on_wait = signal_self(number)
    assert await up_work.run(CONFIG, file_limit()) is None
    assert stand_in.calls == ["start", "stop drain=True"]
    captured = capsys.readouterr()
    assert captured.out == "ready\n"
    assert captured.err.startswith("INSECURE: plain text, no keys.")


async def test_a_signal_before_it_serves_is_heard(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in.on_start = signal_self(signal.SIGTERM)
    stand_in.start_blocks = True
    assert await up_work.run(CONFIG, file_limit()) is None
    assert stand_in.calls == ["start", "stop drain=True"]
    assert capsys.readouterr().out == ""


async def test_a_node_that_does_not_start_is_not_ready(stand_in: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in.start_error = UsageError("cannot listen")
    with pytest.raises(UsageError, match="cannot listen"):
        await up_work.run(CONFIG, file_limit())
    assert capsys.readouterr().out == ""


async def test_a_log_that_fails_ends_the_node(stand_in: StandIn) -> None:
    stand_in.failure = StorageError("the log cannot be synced")
    assert await up_work.run(CONFIG, file_limit()) is stand_in.failure
    assert stand_in.calls[-1].startswith("stop")


async def test_a_second_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    exits: list[int] = []
    monkeypatch.setattr(os, "_exit", exits.append)

    asked = up_work.Asked()
    asked.listen()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        await asked.wait()
        assert exits == []
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(60):
            while not exits:
                await asyncio.sleep(0)
    finally:
        asked.leave()
    assert exits == [128 + signal.SIGTERM]
