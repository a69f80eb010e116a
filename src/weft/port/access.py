"""Who is calling, and what they may do: checked for every call of every protocol (SEC-02).

The API key identifies the caller and has the rights. A certificate of the mesh may be required as well; TLS has
verified any certificate that is shown. Streams stay open for days, so their keys are checked again every second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, islice
from typing import Final, Protocol

from weft.core.groups import Groups
from weft.core.groups.names import parse_group
from weft.limits import LOOK_STREAMS_AT_ONCE
from weft.model import Pattern, Topic
from weft.model.batch_header import PRODUCER_BYTES
from weft.security import (
    Acl,
    Authenticator,
    Cause,
    CertificateRefused,
    KeyRecord,
    NotAllowed,
    Principal,
    Refused,
    Secret,
    Unauthenticated,
)
from weft.security.acl import EVERY_GROUP, owner_of
from weft.security.certificates import read_certificate_untrusted, read_identity_untrusted
from weft.security.quota import Quota

TOPICS_KEPT_MAX: Final = 16_384  # of one caller: about 1.5 MiB
CERTIFICATES_READ_MAX: Final = 256  # cached: a caller shows the same one with every call
PRODUCERS_KEPT: Final = 4096  # about 1 MiB: a client has one, and uses it for every batch
EVERYTHING: Final = (Pattern(">"), Pattern("weft.>"))
EVERYBODY: Final = Acl(
    "plain text", EVERYTHING, EVERYTHING, admin=True, owner=owner_of("anybody", ""), groups=(EVERY_GROUP,)
)

Note = Callable[[Refused, str], None]  # what was refused, and to whom


@dataclass(frozen=True, slots=True)
class Shown:
    """What a caller shows. The certificate is DER; TLS has made sure that our CA issued it."""

    host: str
    key: Secret[str] | None
    certificate: bytes | None
    port: int = 0


class Caller:
    """A client with an open call. Its rights may change during the call. A check that fails raises Refused."""

    def __init__(self, acl: Acl, note: Note) -> None:
        self._acl = acl
        self._note = note
        self._over: Refused | None = None
        self._publishes: set[Topic] = set()  # topics that these rights allow: the same ones are checked again and again
        self.rights: object = acl  # replaced by another object whenever the rights change: then check everything again

    @property
    def who(self) -> str:
        """The name of the caller's account, for example ``key k3``."""
        return self._acl.who

    @property
    def acl(self) -> Acl:
        """The current rights, to show them to people. To check them, use the methods below."""
        return self._acl

    @property
    def quota(self) -> Quota | None:
        """The caller's own quota, if it has one."""
        return None

    @property
    def owner(self) -> str:
        """The caller's name in the topics that it owns."""
        return self._acl.owner

    def update(self, acl: Acl) -> None:
        if acl != self._acl:
            self._acl = self.rights = acl
            self._publishes.clear()

    def expel(self, error: Refused) -> None:
        """The caller's key was revoked."""
        self._over = self.rights = error

    def check(self) -> None:
        if self._over is not None:
            raise self._over

    def check_publish(self, topic: Topic) -> None:
        if topic in self._publishes and self._over is None:
            return
        with self._noting():
            self._acl.check_publish(topic)
        if len(self._publishes) >= TOPICS_KEPT_MAX:
            self._publishes.clear()
        self._publishes.add(topic)

    def check_subscribe(self, pattern: Pattern) -> None:
        with self._noting():
            self._acl.check_subscribe(pattern)

    def check_serve(self, pattern: Pattern) -> None:
        """Check that the caller may answer requests to these topics, which others then do not get."""
        with self._noting():
            self._acl.check_serve(pattern)

    def check_admin(self, what: str) -> None:
        with self._noting():
            self._acl.check_admin(what)

    @property
    def names_groups(self) -> bool:
        """Whether the name of a group is enough to tell if the caller may use it."""
        return self._acl.names_groups

    def check_group(self, group: str, reads: Iterable[Pattern] = ()) -> None:
        with self._noting():
            self._acl.check_group(group, reads)

    def may_see_group(self, group: str) -> bool:
        """For lists of groups: decide by the group's name. A caller whose rights do not name groups sees none."""
        self.check()
        return self._acl.names_groups and self._acl.may_use_group(group)

    def check_give(self, record: KeyRecord) -> None:
        """Check that the caller may make this key."""
        with self._noting():
            self._acl.check_give(record.acl.publish, record.acl.subscribe)

    def may_subscribe(self, pattern: Pattern) -> bool:
        self.check()
        return self._acl.may_subscribe(pattern)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        self.check()
        try:
            yield
        except Refused as error:
            self._note(error, self._acl.who)
            raise


class Access(Protocol):
    async def admit_untrusted(self, shown: Shown) -> Caller:
        """Find out who makes this call; raise only Refused."""

    async def admit_key_untrusted(self, key: Secret[str] | None, host: str) -> Caller:
        """Find out who shows this key, on a connection that was let in before; raise only Refused."""

    def watching(self, caller: Caller, end: Callable[[Refused], None]) -> AbstractContextManager[None]:
        """Use this while the stream is open; ``end`` is called once the caller loses the right to it."""


class OpenAccess:
    """Everybody may do everything. For a node that serves plain text on loopback."""

    async def admit_untrusted(self, shown: Shown) -> Caller:
        """Nobody has proved an identity, but each connection has its own account."""
        return Caller(replace(EVERYBODY, who=f"plain text from {shown.host}:{shown.port}"), lambda error, who: None)

    async def admit_key_untrusted(self, key: Secret[str] | None, host: str) -> Caller:
        return self.anybody()

    def anybody(self) -> Caller:
        return Caller(EVERYBODY, lambda error, who: None)

    def watching(self, caller: Caller, end: Callable[[Refused], None]) -> AbstractContextManager[None]:
        return nullcontext()


class KeyAccess:
    """Access by API key, over TLS. With ``certificate_required``, it also takes a client certificate of the mesh.
    ``note`` is told of every refusal."""

    def __init__(self, authenticator: Authenticator, mesh: str, note: Note, certificate_required: bool) -> None:
        self._authenticator = authenticator
        self._mesh = mesh
        self._note = note
        self._certificate_required = certificate_required
        self._open: dict[Caller, Callable[[Refused], None]] = {}

    async def admit_untrusted(self, shown: Shown) -> Caller:
        try:
            self._check_certificate_untrusted(shown.certificate)
        except Refused as error:
            self._note(error, shown.host)
            raise
        return await self.admit_key_untrusted(shown.key, shown.host)

    async def admit_key_untrusted(self, key: Secret[str] | None, host: str) -> Caller:
        try:
            principal = await self._authenticator.authenticate_untrusted(key, host)
        except Refused as error:
            self._note(error, host)
            raise
        return KeyCaller(principal, self._note)

    def admit_without_key(self, acl: Acl) -> Caller:
        """Admit a caller to which a certificate gives these rights."""
        return Caller(acl, self._note)

    def _check_certificate_untrusted(self, certificate: bytes | None) -> None:
        """Check that the certificate is for this mesh. TLS has checked that our CA issued it, but a company's CA may
        serve many meshes."""
        if certificate is None:
            if self._certificate_required:
                raise Unauthenticated(
                    Cause.CERTIFICATE, f"a certificate of mesh {self._mesh} is needed, and there is none"
                )
            return
        try:
            mesh = _mesh_untrusted(certificate)
        except CertificateRefused as error:
            raise Unauthenticated(Cause.CERTIFICATE, f"your certificate is not valid: {error}") from None
        if mesh != self._mesh:
            raise Unauthenticated(
                Cause.CERTIFICATE, f"a certificate of mesh {self._mesh} is needed, yours is of mesh {mesh}"
            )

    @contextmanager
    def watching(self, caller: Caller, end: Callable[[Refused], None]) -> Iterator[None]:
        self._open[caller] = end
        try:
            yield
        finally:
            del self._open[caller]

    def look(self) -> None:
        """End the streams of callers that have lost their rights. The owner calls this every second. Ten thousand
        streams may be open with a few keys, so each key is checked only once."""
        looked: dict[int, Principal | Refused] = {}  # by id() of the callers' record, which exists during this call
        for caller, end in list(self._open.items()):
            assert isinstance(caller, KeyCaller), "all callers here have keys"
            found = looked.get(id(caller.principal.record))
            if found is None:
                found = looked[id(caller.principal.record)] = self._refreshed(caller.principal)
            if isinstance(found, Principal):
                caller.renew(found)
            else:
                self._note(found, caller.principal.key_id)
                caller.expel(found)
                end(found)

    def _refreshed(self, principal: Principal) -> Principal | Refused:
        try:
            return self._authenticator.refresh(principal)
        except Refused as error:
            return error


class KeyCaller(Caller):
    """A caller that has shown an API key."""

    def __init__(self, principal: Principal, note: Note) -> None:
        super().__init__(principal.acl, note)
        self.principal = principal

    @property
    def quota(self) -> Quota | None:
        return self.principal.record.quota

    def check_give(self, record: KeyRecord) -> None:
        """Check also that the new key does not last longer than the caller's own: otherwise a thief of a key that
        expires could make one that does not."""
        super().check_give(record)
        end_s = self.principal.record.expires_s
        with self._noting():
            if end_s is not None and (record.expires_s is None or record.expires_s > end_s):
                raise NotAllowed(
                    Cause.ADMIN, f"not allowed to make a key that outlives {self.who}: choose an earlier end"
                )

    def renew(self, principal: Principal) -> None:
        """Use the same key, with its current rights."""
        if principal is not self.principal:
            self.principal = principal
            self.update(principal.acl)


@lru_cache(CERTIFICATES_READ_MAX)
def _mesh_untrusted(certificate: bytes) -> str:
    return read_identity_untrusted(read_certificate_untrusted(certificate)).mesh


async def check_group(groups: Groups, caller: Caller, group: str) -> None:
    """Check that a caller may use a group. Every call that names a group asks this (SEC-03). Raise NotAllowed, or
    UsageError if this cannot be the name of a group.

    A group may read a hundred thousand topics, so other tasks have their turn in between.
    """
    parse_group(group)
    if caller.names_groups:
        caller.check_group(group)
        return
    topics = (Pattern(stream.topic) for stream, _ in groups.streams(group))
    reads = chain((each.pattern for each in groups.members(group)), topics)
    while some := list(dict.fromkeys(islice(reads, LOOK_STREAMS_AT_ONCE))):
        caller.check_group(group, some)
        await asyncio.sleep(0)


@lru_cache(PRODUCERS_KEPT)
def bound_producer(producer: bytes, owner: str) -> bytes:
    """The producer id for the log (SEC-03).

    A producer numbers its batches. By producer id and number, a log recognises batches that were sent before. A client
    that knew another client's id could use up its numbers: the log would then take the other's new batches for
    repetitions. So a log never gets the id that a client gave. It gets a digest of that id and the caller's owner,
    which no other caller can produce. Subscribers see neither the id nor the digest.

    The digest depends on the owner and not on the key. So a client that gets a new key of the same name can safely send
    batches again that were in doubt with the old key.
    """
    return blake2b(producer, digest_size=PRODUCER_BYTES, key=owner.encode(), person=b"weft producer").digest()
