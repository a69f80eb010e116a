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
    """A client with an open call. The rights may change meanwhile; every check raises Refused."""

    def __init__(self, acl: Acl, note: Note) -> None:
        self._acl = acl
        self._note = note
        self._over: Refused | None = None
        self._publishes: set[Topic] = set()  # topics that these rights allow: the same ones are checked again and again
        self.rights: object = acl  # another object whenever they change: then callers that passed are checked again

    @property
    def who(self) -> str:
        """Whose account it is: ``key k3``."""
        return self._acl.who

    @property
    def acl(self) -> Acl:
        """The current rights, for showing them; to check, use the methods below."""
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
        """Whether its rights to groups can be told from the groups' names alone."""
        return self._acl.names_groups

    def check_group(self, group: str, reads: Iterable[Pattern] = ()) -> None:
        with self._noting():
            self._acl.check_group(group, reads)

    def may_see_group(self, group: str) -> bool:
        """For lists, by the group's name. A caller without rights by name sees no group."""
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
    """Everybody may do everything: for a node that serves plain text on loopback."""

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
        """TLS knows that our CA issued it, but a company's CA may serve many meshes."""
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
        streams may be open with a few keys, so each key is checked once."""
        looked: dict[int, Principal | Refused] = {}  # by the record that callers have, which stays meanwhile
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
    """A caller with the key it has shown."""

    def __init__(self, principal: Principal, note: Note) -> None:
        super().__init__(principal.acl, note)
        self.principal = principal

    @property
    def quota(self) -> Quota | None:
        return self.principal.record.quota

    def check_give(self, record: KeyRecord) -> None:
        """A key that expires makes none that lasts longer: otherwise a thief would have it for good."""
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
    """Whether a caller may use a group, wherever one is named (SEC-03). Raise NotAllowed, or UsageError for what is not
    a name.

    A group may read a hundred thousand topics, so others have their turn in between.
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

    A producer id says which batches follow each other; a log uses it to recognise what was sent before. Another client
    that knew the id could use its numbers, and what the producer sends after that would count as sent before. So a log
    never sees the id that a client gave: it gets a digest of the id and the caller's owner, which no other caller can
    produce. Subscribers see neither.

    It depends on the owner and not on the key, so that a new key of the same name can repeat what the old one was
    unsure of.
    """
    return blake2b(producer, digest_size=PRODUCER_BYTES, key=owner.encode(), person=b"weft producer").digest()
