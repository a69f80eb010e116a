"""API keys at a node: who may see, make and revoke them; what is taken from peers and from files; what lasts."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import structlog

import weft
from tests.node.running import running_node
from tests.node.secured import key_for, secured, tls_of, until
from tests.security import pki
from tests.security.stated import made, record, revoked
from weft.client import BadRequest, NotAllowed, Unauthenticated
from weft.errors import StorageError, UsageError
from weft.model import NodeId
from weft.node import key_sharing as key_sharing_module
from weft.node.key_answers import read_new_record_untrusted
from weft.node.key_sharing import INBOX_MAX, KeySharing, KeySurroundings, SharingSettings
from weft.security import Authenticator, Cause, Credentials, KeyStore, Names, create_key, node, revoke_key
from weft.security import Unauthenticated as KeyRefused
from weft.security.api_keys import Hash, id_of
from weft.security.key_exchange import KeyTalk
from weft.security.key_statements import SignedText, Verifier, sign
from weft.security.key_store import FILE, MESH_FILE, KeyRequest, new_key
from weft.security.secret import Secret

PEER = NodeId("node-b")
NOW_S = pki.NOW_S


# --- who may -----------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-03")
async def test_only_who_administers_sees_makes_and_revokes_keys_and_gives_no_more_than_they_have(
    tmp_path: Path,
) -> None:
    async with secured(tmp_path, time.time(), "a") as (only,):
        tls, now_s, data = tls_of(only), time.time(), only.config.node.data
        plain_id, plain = key_for(data, now_s, publish=("plant.>",), subscribe=("plant.>",))
        end_s = int(now_s) + 1000
        _, admin = key_for(data, now_s, publish=("plant.>",), admin=True, expires_s=end_s)
        async with weft.connect(only.grpc_address, tls=tls, token=plain) as client:
            for call, what in (
                (client.keys(), "see keys"),
                (client.create_key("x", publish=["plant.>"]), "make keys"),
                (client.revoke_key(plain_id), "revoke keys"),
            ):
                with pytest.raises(NotAllowed, match=f"not allowed to {what} with key {plain_id}: it needs"):
                    await call
        async with weft.connect(only.grpc_address, tls=tls, token=admin) as client:
            for rights, words in (
                ({"publish": [">"]}, 'give the right to publish to ">"'),
                ({"publish": ["weft.>"]}, 'give the right to publish to "weft.>"'),
                ({"subscribe": ["plant.>"]}, 'give the right to subscribe to "plant.>"'),
                ({"publish": ["plant.t"]}, "make a key that outlives"),
                ({"admin": True, "expires_s": end_s + 1}, "make a key that outlives"),
            ):
                with pytest.raises(NotAllowed, match=f"not allowed to {words}"):
                    await client.create_key("more", **rights)
            less = await client.create_key("less", publish=["plant.t"], expires_s=end_s)
            assert less.key not in repr(less)
            shown = await client.keys()
            assert {each.id for each in shown} >= {plain_id, less.info.id}
            assert less.key.rsplit("_", 1)[1] not in repr(shown)
            with pytest.raises(BadRequest, match="there is no key 'k77'"):
                await client.revoke_key("k77")
            with pytest.raises(UsageError, match="not a quota"):
                await client.create_key("x", publish=["plant.t"], quota={"cakes": 3})
        assert only._refusals.totals["admin"] == 8


@pytest.mark.req("SEC-03")
async def test_only_nodes_that_are_named_make_keys(tmp_path: Path) -> None:
    async with secured(tmp_path, time.time(), "a", "b", keys__makers=("a",)) as (a, b):
        tls = tls_of(a)
        _, admin = key_for(a.config.node.data, time.time(), publish=(">",), admin=True)
        _, at_b_only = key_for(b.config.node.data, time.time(), publish=("plant.>",))
        async with weft.connect(b.grpc_address, tls=tls, token=at_b_only) as client:
            await client.publish("plant.t", b"good where it was made")
        await until(lambda: b.protection.keys is not None and len(b.protection.keys.store.mesh) == 2)
        async with weft.connect(b.grpc_address, tls=tls, token=admin, learns=False) as client:
            with pytest.raises(BadRequest, match=r"node b may not make or revoke keys \(keys.makers\)"):
                await client.create_key("x", publish=["plant.t"])
        async with weft.connect(a.grpc_address, tls=tls, token=at_b_only, learns=False) as client:
            with pytest.raises(Unauthenticated, match="is not valid"):
                await client.publish("plant.t", b"and nowhere else")


async def test_a_node_without_security_has_no_keys(tmp_path: Path) -> None:
    async with running_node(tmp_path) as plain, weft.connect(plain.grpc_address, insecure=True) as client:
        for call in (client.keys(), client.create_key("x", admin=True), client.revoke_key("k1")):
            with pytest.raises(BadRequest, match=r"started without security \(--insecure\): it has no API keys"):
                await call


@pytest.mark.parametrize(
    "change",
    [
        {"id": "k1"},
        {"hash": {"n": 2}},
        {"hash": {"r": 4}},
        {"admin": False},
        {"more": 1},
        {"publish": ["a..b"]},
    ],
)
def test_records_of_new_keys_are_checked(change: dict[str, Any]) -> None:
    good = msgspec.to_builtins(record(1))
    assert read_new_record_untrusted(msgspec.json.encode(good), 77.5).created_s == 77, "by the clock of the node"
    if "hash" in change:
        kept = msgspec.convert(good["hash"] | change["hash"], Hash)
        change = {"hash": msgspec.to_builtins(kept), "id": id_of(kept)}
    with pytest.raises(UsageError):
        read_new_record_untrusted(msgspec.json.encode(good | change), 0)


def test_any_bytes_are_a_new_record_or_refused() -> None:
    for data in (b"", b"{", b"[]", b"\xff", bytes(1 << 20), b"[" * 10_000):
        with pytest.raises(UsageError):
            read_new_record_untrusted(data, 0)


# --- one node's part, with a clock that is turned by hand ----------------------------------------------------------


class Desk:
    """A KeySharing with a peer that says what a test says."""

    def __init__(self, place: Path, makers: frozenset[str] | None = None, unheard_s_max: float | None = None) -> None:
        self.data = place / "data"
        self.data.mkdir(exist_ok=True)
        self.ca = pki.authority(place)
        self.now_s = 0.0
        self.sent: list[tuple[NodeId, KeyTalk]] = []
        self.refused: list[str] = []
        self.mine = pki.issued(self.ca)
        self.peers = pki.issued(self.ca, Names(node(pki.MESH, PEER)))
        self.store = KeyStore(self.data)
        verifier = Verifier(pki.MESH, lambda: self.mine.root_pem, makers)
        around = KeySurroundings(lambda: self.now_s, lambda: NOW_S, Random(1), structlog.stdlib.get_logger())  # noqa: S311
        settings = SharingSettings(unheard_s_max, joins=False)
        self.sharing = KeySharing(self.store, self.data, lambda: self.mine, verifier, settings, around)
        self.sharing.send = lambda peer, talk: self.sent.append((peer, talk))
        self.sharing.refused = lambda peer, what: self.refused.append(what)

    async def hear(self, *texts: SignedText) -> None:
        """A message of the peer, taken to its end."""
        self.sharing.received(PEER, KeyTalk(statements=texts))
        listening = asyncio.create_task(self.sharing.listen())
        while self.sharing.waiting:
            await asyncio.sleep(0.001)
        await self.sharing._keep_once()
        listening.cancel()

    def of_peer(self, number: int, credentials: Credentials | None = None) -> SignedText:
        return sign(made(record(number), PEER), credentials or self.peers, NOW_S).text


async def test_what_is_learned_is_sent_on_and_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for peer in (PEER, NodeId("node-c")):
        desk.sharing.link_up(peer)
    desk.sent.clear()
    await desk.hear(desk.of_peer(1))
    assert [peer for peer, talk in desk.sent if talk.statements] == ["node-c"], "not back to where it came from"
    (known,) = KeyStore(desk.data).known(record(1).id)
    assert (known.made_by, known.record, known.known_s) == (PEER, record(1), int(NOW_S))
    gone = sign(revoked(record(1), PEER), desk.peers, NOW_S).text
    await desk.hear(gone, desk.of_peer(1))
    assert desk.store.known(record(1).id) == KeyStore(desk.data).known(record(1).id) == []
    assert (desk.data / MESH_FILE).stat().st_mode & 0o777 == 0o600
    desk.sharing.link_down(PEER)
    desk.sharing.received(PEER, KeyTalk(statements=(desk.of_peer(2),)))
    assert not desk.sharing.waiting, "its link is gone"


@pytest.mark.req("SEC-06")
async def test_what_a_bad_node_writes_beside_its_certificates_is_not_kept(tmp_path: Path) -> None:
    """PEM allows any bytes between two certificates; a file of JSON does not."""

    desk = Desk(tmp_path)
    desk.sharing.link_up(PEER)
    for number, junk in enumerate((b"\xff\xfe\n", b"\x00" * 1000 + b"\n")):
        text = desk.of_peer(number)
        await desk.hear(replace(text, chain=junk + text.chain + junk))
    assert KeyStore(desk.data).known(record(0).id) and KeyStore(desk.data).known(record(1).id)
    assert (desk.data / MESH_FILE).stat().st_size < 10_000


@pytest.mark.req("SEC-06")
async def test_a_peer_that_floods_fills_its_own_place_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    desk.sharing.link_up(PEER)
    for number in range(3 * INBOX_MAX):
        desk.sharing.received(PEER, KeyTalk(summary=bytes([number] * 8)))
    assert desk.sharing.waiting == INBOX_MAX
    monkeypatch.setattr("weft.security.mesh_keys.API_KEYS_MAX", 1)
    await desk.hear()
    await desk.hear(desk.of_peer(1), desk.of_peer(2), SignedText(b"nonsense", b"", b""))
    assert len(desk.store.mesh) == 1
    assert [text for text in desk.refused if "no room" in text] and [text for text in desk.refused if "read" in text]


@pytest.mark.req("SEC-03")
async def test_a_node_that_hears_from_nobody_for_too_long_lets_nobody_in(tmp_path: Path) -> None:
    desk = Desk(tmp_path, unheard_s_max=60.0)
    _, key = create_key(desk.data, KeyRequest("test", admin=True), bytes(range(48)), NOW_S)
    authenticator = Authenticator(desk.store, b"k" * 32, clock=lambda: desk.now_s, wall_clock=lambda: NOW_S)
    desk.now_s = 1000.0
    await desk.sharing._keep_once()
    caller = await authenticator.authenticate_untrusted(key, "10.0.0.1")  # a mesh of one has nobody to hear from
    desk.sharing.link_up(PEER)
    desk.sharing.received(PEER, KeyTalk(summary=bytes(8)))
    desk.sharing.link_down(PEER)
    desk.now_s = 1060.0
    await desk.sharing._keep_once()
    assert authenticator.refresh(caller) is not None
    desk.now_s = 1061.0
    await desk.sharing._keep_once()
    for attempt in (lambda: authenticator.refresh(caller), None):
        with pytest.raises(KeyRefused, match="has heard from no other for 60 s") as caught:
            attempt() if attempt else await authenticator.authenticate_untrusted(key, "10.0.0.1")
        assert caught.value.cause is Cause.UNHEARD
    desk.sharing.link_up(PEER)
    desk.sharing.received(PEER, KeyTalk(summary=bytes(8)))
    assert (await authenticator.authenticate_untrusted(key, "10.0.0.1")).key_id == caller.key_id


async def test_what_commands_do_is_told_to_the_mesh_once_and_what_is_changed_by_hand_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    key, _ = create_key(desk.data, KeyRequest("test", publish=("a",)), bytes(range(48)), NOW_S)
    await desk.sharing._keep_once()
    ((said, statement),) = desk.store.mesh.made(key.id)
    assert (said.key, said.signer, said.by) == (key, "node-a", "weft keys on node-a")
    await desk.sharing._keep_once()
    assert desk.store.mesh.made(key.id) == [(said, statement)]
    document = msgspec.json.decode((desk.data / FILE).read_bytes())
    document["keys"][0]["publish"] = ["b.>"]
    (desk.data / FILE).write_bytes(msgspec.json.encode(document))
    desk.mine = pki.issued(desk.ca, now_s=NOW_S + 120)  # signed with the next certificate, and so later
    await desk.sharing._keep_once()
    assert desk.store.find(key.key_name) == msgspec.structs.replace(key, publish=("b.>",))
    revoke_key(desk.data, key.id)
    await desk.sharing._keep_once()
    assert desk.store.mesh.revocation(key.key_name) is not None and not desk.store.ids()


async def test_keys_that_find_no_room_or_ended_long_ago_are_not_tried_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(tmp_path)
    monkeypatch.setattr("weft.security.mesh_keys.API_KEYS_MAX", 0)
    signed: list[object] = []

    def counted(*what: Any) -> Any:
        signed.append(what)
        return sign(*what)

    monkeypatch.setattr(key_sharing_module, "sign", counted)
    create_key(desk.data, KeyRequest("old", admin=True, expires_s=1), bytes(48), NOW_S)
    key, _ = create_key(desk.data, KeyRequest("test", admin=True), bytes(range(48)), NOW_S)
    for _ in range(3):
        await desk.sharing._keep_once()
    assert len(signed) == 1
    assert desk.store.find(key.key_name) == key, "it is good here"
    monkeypatch.setattr("weft.security.mesh_keys.API_KEYS_MAX", 1)
    desk.now_s += 10.0
    await desk.sharing._keep_once()
    assert len(desk.store.mesh.made(key.id)) == 1


async def test_what_cannot_be_kept_is_said_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)

    def full(*_: object) -> None:
        raise StorageError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(key_sharing_module, "write_statements", full)
        new, _ = new_key(KeyRequest("test", admin=True), bytes(range(48)), NOW_S)
        with pytest.raises(StorageError, match="no space left"):
            await desk.sharing.create(new, "a test")
    await desk.sharing.close()
    assert [each.record for each in KeyStore(desk.data).known(new.id)] == [new]
    again = await desk.sharing.create(new, "a test")
    assert again.record == new and len(desk.store.mesh) == 1
    await desk.sharing.revoke(new.id, "a test")
    with pytest.raises(UsageError, match="was revoked: make another"):
        await desk.sharing.create(new, "a test")


@pytest.mark.req("SEC-03")
async def test_under_a_new_root_nodes_say_again_what_they_said_and_what_is_revoked(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.sharing.link_up(PEER)
    for number in (1, 2):
        await desk.sharing._say([made(record(number), "node-a")])
    await desk.hear(desk.of_peer(3), sign(revoked(record(2), PEER), desk.peers, NOW_S).text)
    before = set(desk.store.mesh.marks)
    await desk.sharing._say_again()
    assert desk.store.mesh.marks == before, "nothing to do under the same root"
    desk.mine = pki.issued(pki.authority(tmp_path / "new"))
    await desk.sharing._say_again()
    found = KeyStore(desk.data).mesh
    assert list(found.ids()) == [record(1).id], "node-b says again what it made, when it has the new root"
    assert found.revocation(record(2).key_name) is not None
    new = Verifier(pki.MESH, lambda: desk.mine.root_pem, None)
    for each in found.statements():
        assert new.believe_untrusted(each.text, 0).said.signer == "node-a"


def test_damaged_files_are_named(tmp_path: Path) -> None:
    (tmp_path / MESH_FILE).touch(0o600)
    for text in (
        "",
        "{}",
        '{"version":1,"chains":{},"statements":[{"text":"{}","signature":"","chain":"","known_s":0}]}',
    ):
        (tmp_path / MESH_FILE).write_text(text)
        with pytest.raises(StorageError, match=r"mesh-keys\.json is damaged"):
            KeyStore(tmp_path)


async def test_the_same_secret_is_one_key_whoever_made_it(tmp_path: Path) -> None:
    """Files that were copied by hand, before keys belonged to the mesh."""

    desk = Desk(tmp_path)
    desk.sharing.link_up(PEER)
    mine, key = new_key(KeyRequest("test", admin=True), bytes(range(48)), NOW_S)
    await desk.hear(sign(made(mine, PEER), desk.peers, NOW_S).text)
    await desk.sharing._say([made(mine, "node-a")])
    assert [each.made_by for each in desk.store.known(mine.id)] == ["node-a", PEER]
    assert desk.store.candidates(mine.id) == [mine]
    await desk.sharing.revoke(mine.id, "a test")
    assert desk.store.known(mine.id) == []
    authenticator = Authenticator(desk.store, b"k" * 32, clock=lambda: 0.0, wall_clock=lambda: NOW_S)
    with pytest.raises(KeyRefused, match="is not valid"):
        await authenticator.authenticate_untrusted(Secret(key.reveal()), "10.0.0.1")
