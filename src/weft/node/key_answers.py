"""What operators ask a node about API keys: to list them, make one, or revoke one."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Final

import msgspec

from weft.errors import UsageError
from weft.limits import KIB
from weft.model import NodeId
from weft.model.key_info import KeyInfo
from weft.node.key_sharing import KeySharing
from weft.port.access import Caller
from weft.port.pages import PageRoom
from weft.port.quotas import Quotas
from weft.security.api_keys import SCRYPT_N, SCRYPT_P, SCRYPT_R, KeyName, KeyRecord, is_numbered
from weft.security.key_store import KeyRequest, KnownKey
from weft.wire.mesh import mesh_pb2 as pb

LOOK_KEYS_AT_ONCE: Final = 128  # in one turn of the event loop: a few milliseconds
RECORD_BYTES_MAX: Final = 48 * KIB  # of a new key: 128 patterns of 255 bytes take 33


class NodeKeyAnswers:
    """``quotas`` has what callers use of this node. ``looked`` is told that a key was revoked, because streams may have
    to end."""

    def __init__(self, me: NodeId, sharing: KeySharing | None, quotas: Quotas, looked: Callable[[], None]) -> None:
        self._me = me
        self._found = sharing
        self._quotas = quotas
        self._looked = looked

    @property
    def _sharing(self) -> KeySharing:
        if self._found is None:
            raise UsageError("this node was started without security (--insecure): it has no API keys")
        return self._found

    async def keys(self, key: str, room: PageRoom, after: str) -> pb.KeysReply:
        """All keys, or the ones with this id, as many as fit."""
        store = self._sharing.store
        reply = pb.KeysReply(node_id=self._me)
        key_id, _, maker = key.partition("@")
        ids = [key_id] if key else store.ids()
        last = after
        for number, each in enumerate(ids[bisect_right(ids, after) :], 1):
            if number % LOOK_KEYS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if room.is_full:
                reply.next_page = last.encode()
                break
            for known in store.known(each):
                if not maker or known.made_by == maker:
                    document = msgspec.json.encode(self._info(known))
                    room.take(len(document))
                    reply.keys.append(document)
            last = each
        return reply

    async def create(self, record: bytes, caller: Caller) -> pb.CreateKeyReply:
        wanted = read_new_record_untrusted(record, time.time())
        caller.check_give(wanted)
        known = await self._sharing.create(wanted, caller.who)
        return pb.CreateKeyReply(key=msgspec.json.encode(self._info(known)), node_id=self._me)

    async def revoke(self, key: str, caller: Caller) -> pb.RevokeKeyReply:
        """Asked again, it says the same, because the caller may have missed the first answer."""
        gone = self._revoked(key)
        if gone is None:
            gone = self._info(await self._sharing.revoke(key, caller.who))
            self._looked()
        return pb.RevokeKeyReply(key=msgspec.json.encode(gone), node_id=self._me)

    def _revoked(self, key: str) -> KeyInfo | None:
        """A key that was revoked before, if its id says which one it is."""
        if is_numbered(key):
            return None
        revocation = self._sharing.store.mesh.revocation(KeyName(key, key[1:]))
        if revocation is None:
            return None
        said = revocation.said
        return KeyInfo(id=key, name=getattr(said, "name", ""), expires_s=said.expires_s)

    def _info(self, known: KnownKey) -> KeyInfo:
        record = known.record
        limits = self._quotas.quota_of(record.quota).said()
        used = self._quotas.used(record.acl.who)
        return msgspec.structs.replace(known.info, limits=limits, used=used)


def read_new_record_untrusted(data: bytes, now_s: float) -> KeyRecord:
    """Read what kind of key a client wants; raise only UsageError."""
    if len(data) > RECORD_BYTES_MAX:
        raise UsageError("the rights of this key are too long", size=len(data), limit=RECORD_BYTES_MAX)
    try:
        record = msgspec.json.decode(data, type=KeyRecord)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"not the record of a key: {error}") from None
    if is_numbered(record.id) or (record.hash.n, record.hash.r, record.hash.p) != (SCRYPT_N, SCRYPT_R, SCRYPT_P):
        raise UsageError("a new key is hashed as `weft keys create` does it, and has an id made from the hash")
    KeyRequest(record.name, record.publish, record.subscribe, record.admin)  # raises UsageError
    return msgspec.structs.replace(record, created_s=int(now_s))
