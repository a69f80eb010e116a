"""``weft backup``, ``restore`` and ``upgrade --check`` on a secured node that runs, and mistakes with them."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

import weft as sdk
from tests.cli.commands import Weft
from tests.up import up
from weft.gateway.emm.identity import _Document as EmmFile
from weft.log import RocksStore
from weft.log.records import meta_write
from weft.log.recovery import FORMAT
from weft.model import Receipt
from weft.node.upgrading import FILES
from weft.security.issuing import _Revoked as RevokedFile
from weft.security.key_store import KeyFile, _MeshFile
from weft.security.trust_file import _Document as TrustFile


async def _publish(client: sdk.Client, first: int, end: int) -> list[Receipt]:
    return [await client.publish("plant.t", str(number)) for number in range(first, end)]


async def _read(client: sdk.Client, count: int) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    async with client.subscribe("plant.t", start="earliest") as subscription:
        async for event in subscription:
            found.append((event.epoch, event.payload.decode()))
            if len(found) == count:
                break
    return found


@pytest.mark.req("OPS-02")
async def test_a_running_node_is_saved_and_comes_back_with_its_events_its_keys_and_a_new_epoch(
    weft: Weft, tmp_path: Path
) -> None:
    config = tmp_path / "contexts"

    async def before() -> tuple[list[Receipt], Receipt, str | None]:
        with up(tmp_path / "a", "--node-id", "node-a", config=config) as node:
            async with node.client() as client:
                receipts = await _publish(client, 0, 20)
                waits = await client.publish("plant.t", "later", delay=3600)
                saved = await asyncio.to_thread(weft, "backup", tmp_path / "saved", "--data", tmp_path / "a", "--json")
                assert saved.status == 0, saved.err
                assert {**saved.document, "taken_ms": 0, "weft": "", "files": 0} == {
                    "version": 1, "weft": "", "node": "node-a", "taken_ms": 0, "log_format": FORMAT,
                    "epoch": receipts[0].epoch, "streams": 2, "events": 21, "files": 0, "log_only": False,
                }  # fmt: skip
                await _publish(client, 20, 25)
            node.end(signal.SIGKILL)
            return receipts, waits, node.context.token

    receipts, waits, token = await before()
    refused = weft("up", "--data", tmp_path / "saved")
    assert refused.status == 1 and "is a backup" in refused.err

    restored = weft("restore", tmp_path / "saved", "--data", tmp_path / "b")
    assert restored.status == 0 and "21 events in 2 streams of node node-a" in restored.out, restored.err
    assert (tmp_path / "b").stat().st_mode & 0o077 == 0

    with up(tmp_path / "b", config=config) as node:
        tls = sdk.TlsFiles(tmp_path / "b" / "tls" / "root.pem")
        async with sdk.connect([node.grpc], token=token, tls=tls) as client:  # the key is known, as before
            (receipt,) = await _publish(client, 100, 101)
            assert (receipt.stream.origin, receipt.first_offset) == ("node-a", 0) and receipt.epoch > receipts[0].epoch
            seen = await _read(client, 21)
            assert [each.id for each in await client.later()] == [waits.first]
            await client.cancel_later(waits.first)
        assert sorted(seen) == sorted(
            [(receipts[0].epoch, str(number)) for number in range(20)] + [(receipt.epoch, "100")]
        )
        node.end_quietly()


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """The data directory of a node that has ended."""
    with up(tmp_path / "data", "--insecure", "--node-id", "node-a") as node:
        node.end_quietly()
    yield tmp_path / "data"


@pytest.mark.req("OPS-02")
def test_an_upgrade_is_checked_before_it_happens(weft: Weft, data: Path) -> None:
    good = weft("upgrade", "--check", "--data", data, "--json")
    assert good.status == 0 and good.document["readable"]
    assert good.document["parts"][0] == {
        "part": "log", "found": FORMAT, "known": list(range(1, FORMAT + 1)), "note": "", "readable": True,
    }  # fmt: skip

    with closing(RocksStore(data)) as store:
        store.write([meta_write("format", FORMAT - 1)])
        store.sync()
    older = weft("upgrade", "--check", "--data", data)
    assert older.status == 0 and "take a backup first" in " ".join(older.out.split())

    with closing(RocksStore(data)) as store:
        store.write([meta_write("format", FORMAT + 1)])
        store.sync()
    (data / "keys.json").write_text(json.dumps({"version": 99}))
    newer = weft("upgrade", "--check", "--data", data)
    assert newer.status == 1 and "cannot read" in newer.err
    document = weft("upgrade", "--check", "--data", data, "--json").document
    assert [(each["part"], each["readable"]) for each in document["parts"]] == [("log", False), ("keys.json", False)]


def test_mistakes_are_told_in_a_sentence_and_leave_nothing_behind(weft: Weft, data: Path, tmp_path: Path) -> None:
    full, nothing = tmp_path / "full", tmp_path / "nothing"
    full.mkdir()
    (full / "here").touch()
    for arguments, words in (
        (("backup", tmp_path / "new", "--data", nothing), "holds no log"),
        (("backup", full, "--data", data), "exists and is not empty"),
        (("backup", data / "inside", "--data", data), "is inside"),
        (("restore", full, "--data", tmp_path / "new"), "is not a backup"),
        (("upgrade", "--data", data), "upgraded with pip"),
        (("upgrade", "--check", "--data", nothing), "is not a directory"),
    ):
        outcome = weft(*arguments)
        assert outcome.status == 1 and words in " ".join(outcome.err.split()), arguments
        assert "Traceback" not in outcome.err

    assert weft("backup", tmp_path / "saved", "--data", data, "--log-only").status == 0
    assert not (tmp_path / "saved" / "tls").exists()
    assert "is a backup" in weft("backup", tmp_path / "again", "--data", tmp_path / "saved").err
    manifest = tmp_path / "saved" / "backup.json"
    for text, words in (("{", "is damaged"), (manifest.read_text().replace('"version": 1', '"version": 9'), "made by")):
        manifest.write_text(text)
        assert words in " ".join(weft("restore", tmp_path / "saved", "--data", tmp_path / "new").err.split())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "full", "saved"]


def test_the_versions_of_files_are_those_that_their_readers_take() -> None:
    readers = {"keys.json": KeyFile, "mesh-keys.json": _MeshFile, "trust.json": TrustFile, "emm.json": EmmFile,
               "ca/revoked.json": RevokedFile}  # fmt: skip
    assert readers.keys() == FILES.keys()
    for name, reader in readers.items():
        info = msgspec.inspect.type_info(reader)
        assert isinstance(info, msgspec.inspect.StructType)
        (version,) = [field.type for field in info.fields if field.name == "version"]
        assert isinstance(version, msgspec.inspect.LiteralType)
        assert tuple(version.values) == FILES[name]
