"""This node's part in sharing the mesh's API keys (ADR 33).

Statements from peers are checked in a thread, then merged and sent on. What commands wrote to ``keys.json`` is signed
and sent to the mesh. What this node itself says is on its disk before anybody hears of it.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from structlog.stdlib import BoundLogger

from weft.chance import Chance
from weft.errors import StorageError, UsageError
from weft.limits import SECURITY_RELOAD_INTERVAL_S
from weft.model import NodeId
from weft.security import Credentials, KeyStore
from weft.security.api_keys import KeyName, KeyRecord
from weft.security.key_exchange import KeyExchange, KeyTalk, SendTalk
from weft.security.key_statements import BadStatement, KeyMade, KeyRevoked, Said, SignedText, Statement, Verifier, sign
from weft.security.key_store import Here, KnownKey, resolve, write_statements
from weft.security.mesh_keys import API_KEYS_MAX, MergeOutcome, has_ended

ROUND_S: Final = 2.0  # between two comparisons with some peer: lost messages are made up for after a few
FORGET_S: Final = 3600.0  # between two searches for keys that ended long ago
INBOX_MAX: Final = 8  # messages of one peer that wait to be checked; later ones are dropped, and comparing finds them
NEWS_LOGGED_MAX: Final = 8  # in one message, a line each; all others share one line
SIGNED_AT_ONCE: Final = 64  # statements, in a thread
TAKE_UP_AGAIN_S: Final = 10.0  # after there was no room
LOOKED_AT_ONCE: Final = 256  # keys of keys.json, in one turn of the event loop: a few milliseconds


@dataclass(frozen=True, slots=True)
class SharingSettings:
    """``unheard_s_max``: how long keys stay valid without a word from any peer; None: for ever. ``joins``: the node is
    configured to have peers."""

    unheard_s_max: float | None
    joins: bool


@dataclass(frozen=True, slots=True)
class KeySurroundings:
    """``now_s`` is a monotonic clock; ``unix_s`` returns Unix time."""

    now_s: Callable[[], float]
    unix_s: Callable[[], float]
    chance: Chance
    logger: BoundLogger


class KeySharing:
    """Used from the event loop. ``current`` returns this node's current credentials."""

    def __init__(
        self,
        store: KeyStore,
        data: Path,
        current: Callable[[], Credentials],
        verifier: Verifier,
        settings: SharingSettings,
        around: KeySurroundings,
    ) -> None:
        self.store = store
        # Set once there are links. ``refused`` is called with what a peer sent and this node did not believe.
        self.send: Callable[[NodeId, KeyTalk], None] = lambda peer, talk: None
        self.refused: Callable[[NodeId, str], None] = lambda peer, what: None
        self._data = data
        self._current = current
        self._verifier = verifier
        self._settings = settings
        self._around = around
        self._logger = around.logger
        self._exchange = KeyExchange(store.mesh, around.chance)
        self._inboxes: dict[NodeId, deque[KeyTalk]] = {}
        self._arrived = asyncio.Event()
        self._signing = asyncio.Lock()  # only one thread at a time uses the verifier, the disk, or the credentials
        self._unsaved = False
        self._heard_s = self._next_round_s = self._next_forget_s = around.now_s()
        me = current().identity.name
        self._has_peers = settings.joins or any(each.said.signer != me for each in store.mesh.statements())
        self._taken_up: Here | None = None  # what commands did here, as far as the mesh was told
        self._take_up_again_s = math.inf
        self._is_root_checked = False

    @property
    def me(self) -> str:
        return self._current().identity.name

    @property
    def waiting(self) -> int:
        """Messages that were not taken yet."""
        return sum(map(len, self._inboxes.values()))

    def figures(self) -> dict[str, int]:
        return {"good": len(self.store.mesh), "revoked": self.store.mesh.revoked_count}

    # --- links ---------------------------------------------------------------------------------------------------

    def link_up(self, peer: NodeId) -> None:
        self._has_peers = True
        self._inboxes[peer] = deque()
        self._perform(self._exchange.link_up(peer))

    def link_down(self, peer: NodeId) -> None:
        self._inboxes.pop(peer, None)
        self._exchange.link_down(peer)

    def received(self, peer: NodeId, talk: KeyTalk) -> None:
        inbox = self._inboxes.get(peer)
        if inbox is None:
            return
        self._heard_s = self._around.now_s()
        self.store.distrusted = None
        if len(inbox) < INBOX_MAX:
            inbox.append(talk)
            self._arrived.set()

    def _perform(self, sends: Sequence[SendTalk]) -> None:
        for each in sends:
            self.send(each.peer, each.talk)

    # --- running -------------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Take what peers say, one message of each in turn."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            for peer, inbox in list(self._inboxes.items()):
                if inbox:
                    await self._take(peer, inbox.popleft())
            if self.waiting:
                self._arrived.set()

    async def keep(self) -> None:
        """Look at ``keys.json``, compare with peers, and keep what was learned."""
        while True:
            try:
                await self._keep_once()
            except StorageError as error:
                self._logger.error("keys_not_kept", reason=str(error))
            await asyncio.sleep(SECURITY_RELOAD_INTERVAL_S)

    async def _keep_once(self) -> None:
        if not self._is_root_checked:
            self._is_root_checked = True
            await self._say_again()
        await self.store.look()
        await self._take_up()
        now_s = self._around.now_s()
        if now_s >= self._next_round_s:
            self._next_round_s = now_s + ROUND_S
            self._perform(self._exchange.begin_round())
        if now_s >= self._next_forget_s:
            self._next_forget_s = now_s + FORGET_S
            self._unsaved |= self.store.mesh.forget_ended(self._around.unix_s()) > 0
        self._check_heard(now_s)
        await self._save_if_needed()

    async def close(self) -> None:
        """Keep what was learned last. What cannot be kept comes again from others."""
        try:
            await self._save_if_needed()
        except StorageError as error:
            self._logger.error("keys_not_kept", reason=str(error))

    def _check_heard(self, now_s: float) -> None:
        limit_s = self._settings.unheard_s_max
        silent_s = now_s - self._heard_s
        if limit_s is None or not self._has_peers or silent_s <= limit_s:
            return
        if self.store.distrusted is None:
            self._logger.error("keys_distrusted", silent_s=round(silent_s), limit_s=limit_s)
        self.store.distrusted = (
            f"this node has heard from no other for {limit_s:g} s, so it cannot know which keys were revoked "
            "(keys.unheard_s_max)"
        )

    # --- what peers say ------------------------------------------------------------------------------------------

    async def _take(self, peer: NodeId, talk: KeyTalk) -> None:
        known_s = int(self._around.unix_s())
        believed: list[Statement] = []
        if talk.statements:
            async with self._signing:
                believed, faults = await asyncio.to_thread(self._believe_untrusted, talk.statements, known_s)
            for fault in faults:
                self.refused(peer, fault)
        news = [each for each in believed if self._merge(each, peer)]
        self._tell(news, peer)
        self._perform(self._exchange.spread(news, peer))
        if peer in self._inboxes:
            self._perform(self._exchange.answer(peer, talk, bool(news)))

    def _believe_untrusted(self, texts: Sequence[SignedText], known_s: int) -> tuple[list[Statement], list[str]]:
        """Check statements, in a thread. Those that are known already come again all the time, and are not checked."""
        believed: list[Statement] = []
        faults: list[str] = []
        for text in texts:
            if text.mark in self.store.mesh.marks:
                continue
            try:
                believed.append(self._verifier.believe_untrusted(text, known_s))
            except BadStatement as error:
                faults.append(str(error))
        return believed, faults

    def _merge(self, statement: Statement, peer: NodeId | None) -> bool:
        outcome = self.store.mesh.merge(statement, self._around.unix_s())
        if outcome is MergeOutcome.NO_ROOM and peer is not None:
            self.refused(peer, f"there is no room for more than {API_KEYS_MAX} keys: revoke some")
        self._unsaved |= outcome is MergeOutcome.NEW
        return outcome is MergeOutcome.NEW

    def _tell(self, news: Sequence[Statement], peer: NodeId) -> None:
        if len(news) > NEWS_LOGGED_MAX:
            revoked = sum(isinstance(each.said, KeyRevoked) for each in news)
            self._logger.info("keys_learned", keys=len(news) - revoked, revoked=revoked, peer=peer)
            return
        for each in news:
            said = each.said
            if isinstance(said, KeyMade):
                self._logger.info("key_learned", key=said.key.id, made_by=said.signer, by=said.by, peer=peer)
            else:
                self._logger.info("key_revoked", key=said.id, revoked_by=said.signer, by=said.by, peer=peer)

    # --- what this node says -------------------------------------------------------------------------------------

    async def create(self, record: KeyRecord, by: str) -> KnownKey:
        """Make a key of the mesh; durable here once this returns. Raise UsageError."""
        self._check_may()
        mesh = self.store.mesh
        if mesh.revocation(record.key_name) is not None:
            raise UsageError(f"key {record.id} was revoked: make another")
        if not any(known.made_by for known in self.store.known(record.id) if known.record.hash == record.hash):
            await self._say([KeyMade(key=record, signer=self.me, signed_s=0, by=by)])
            self._logger.info("key_made", key=record.id, name=record.name, by=by)
        found = next((each for each in self.store.known(record.id) if each.record.hash == record.hash), None)
        if found is None:
            raise UsageError("too many API keys: revoke some", limit=API_KEYS_MAX)
        return found

    async def revoke(self, key: str, by: str) -> KnownKey:
        """Revoke a key of the mesh, for good; durable here once this returns. Raise UsageError."""
        self._check_may()
        record, _ = resolve(self.store, key)
        found = next(each for each in self.store.known(record.id) if each.record.key_name == record.key_name)
        await self._say([_revocation(record, self.me, by)])
        self._logger.info("key_revoked", key=record.id, revoked_by=self.me, by=by)
        return found

    def _check_may(self) -> None:
        if not self._verifier.may_make(self.me):
            raise UsageError(f"node {self.me} may not make or revoke keys (keys.makers): ask one that may")

    async def _take_up(self) -> None:
        """Tell the mesh what commands on this machine made and revoked, and what was there before the mesh knew
        keys."""
        here, now_s = self.store.here, self._around.now_s()
        if here is self._taken_up and now_s < self._take_up_again_s:
            return
        self._taken_up, self._take_up_again_s = here, math.inf
        said = await self._untold(here)
        revoked = sum(isinstance(each, KeyRevoked) for each in said)
        if said and not self._verifier.may_make(self.me):
            self._logger.warning("keys_not_shared", keys=len(said) - revoked, revoked=revoked, reason="keys.makers")
        elif said:
            taken = await self._say(said)
            self._logger.info("keys_taken_up", keys=len(said) - revoked, revoked=revoked, left=len(said) - taken)
            if taken < len(said):  # there was no room, or it changed twice within a second
                self._take_up_again_s = now_s + TAKE_UP_AGAIN_S

    async def _say_again(self) -> None:
        """After the mesh got a new root, nobody can check what was signed before. So nodes repeat, under the new root,
        what they said themselves, and all revocations, no matter who made them, because these must not be lost."""
        known, mesh, me = self.store.mesh.statements(), self.store.mesh, self.me
        is_good = self._verifier.is_of_this_root
        async with self._signing:
            found = await asyncio.to_thread(lambda: [each for each in known if not is_good(each)])
        old = [each for each in found if each.mark in mesh.marks]  # what is still there
        if not old or not self._verifier.may_make(me):
            return
        said = [each.said for each in old if isinstance(each.said, KeyRevoked) or each.said.signer == me]
        mesh.forget(old)
        await self._say([msgspec.structs.replace(each, signer=me) for each in said])
        self._logger.warning("keys_of_another_root", said_again=len(said), forgotten=len(old) - len(said))

    async def _untold(self, here: Here) -> list[Said]:
        """What is in keys.json and unknown to the mesh."""
        mesh, by, me, unix_s = self.store.mesh, f"weft keys on {self.me}", self.me, self._around.unix_s()
        said: list[Said] = [
            KeyRevoked(id=e.id, mark=e.mark, name=e.name, expires_s=e.expires_s, signer=me, signed_s=0, by=by)
            for e in here.revoked.values()
            if mesh.revocation(e.key_name) is None
        ]
        for number, each in enumerate((record for same in here.keys.values() for record in same), 1):
            if mesh.revocation(each.key_name) is None and not self._is_told(each):
                said.append(KeyMade(key=each, signer=me, signed_s=0, by=by))
            if number % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)  # others have their turn
        return [each for each in said if not has_ended(each, unix_s)]

    def _is_told(self, record: KeyRecord) -> bool:
        """Whether the mesh knows this key, and, if this node told it, with the rights that the file has now."""
        told = [made for made, _ in self.store.mesh.made(record.id) if made.key_name == record.key_name]
        return bool(told) and all(made.signer != self.me or made.key == record for made in told)

    async def _say(self, said: Sequence[Said]) -> int:
        """Sign, keep, and tell the peers; return how much of it was new."""
        current = self._current()
        news: list[Statement] = []
        for first in range(0, len(said), SIGNED_AT_ONCE):
            portion = said[first : first + SIGNED_AT_ONCE]
            async with self._signing:
                now_s = self._around.unix_s()
                statements = await asyncio.to_thread(_signed, portion, current, now_s)
            news += [each for each in statements if self._merge(each, None)]
        await self._save_if_needed()
        self._perform(self._exchange.spread(news, None))
        return len(news)

    async def _save_if_needed(self) -> None:
        async with self._signing:
            if not self._unsaved:
                return
            self._unsaved = False
            try:
                await asyncio.to_thread(write_statements, self._data, self.store.mesh.statements())
            except StorageError:
                self._unsaved = True
                raise


def _signed(said: Sequence[Said], credentials: Credentials, now_s: float) -> list[Statement]:
    return [sign(each, credentials, now_s) for each in said]


def _revocation(record: KeyRecord, signer: str, by: str) -> KeyRevoked:
    name: KeyName = record.key_name
    return KeyRevoked(
        id=name.id, mark=name.mark, name=record.name, expires_s=record.expires_s, signer=signer, signed_s=0, by=by
    )
