"""What a caller may do: publish and subscribe by topic pattern, and administer (SEC-02).

Topics below ``weft.`` are the mesh's own, so a right has to name that first token to reach them: ``>`` is every topic
of every user and nothing else. Some of them belong to somebody, who needs no further right (SEC-03, ``model.owned``):
what Spark jobs stage and decide is read and written by its owner; an inbox is read by its owner, and written to by
those who know its id, because a request told them. Who may administer sees all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from weft.model import Pattern, Topic, covers, matches
from weft.model.owned import OwnedKind, read_owned
from weft.security.errors import Cause, NotAllowed

OWN_TOKEN: Final = "weft"  # noqa: S105  of topics, no secret
OWNER_BYTES: Final = 8  # of a digest: nobody chooses names until two have the same
NOBODY: Final = ""  # owns nothing


@dataclass(frozen=True, slots=True)
class Acl:
    """``who`` is how refusals name the caller: ``key k3``; ``owner`` is what topics call it that it owns."""

    who: str
    publish: tuple[Pattern, ...] = ()
    subscribe: tuple[Pattern, ...] = ()
    admin: bool = False
    owner: str = NOBODY

    def may_publish(self, topic: Topic) -> bool:
        owned = read_owned(topic)
        if owned is not None and (owned.kind is OwnedKind.INBOX or owned.owner == self.owner):
            return True
        return any(matches(pattern, topic) and _is_own(pattern) == _is_own(topic) for pattern in self.publish)

    def may_subscribe(self, pattern: Pattern) -> bool:
        """Whether one right covers all that the pattern selects. Two that do so together do not count."""
        owned = read_owned(pattern)
        if owned is not None and (self.admin or owned.owner == self.owner):
            return True
        return any(covers(each, pattern) and _is_own(each) == _is_own(pattern) for each in self.subscribe)

    def check_publish(self, topic: Topic) -> None:
        """Raise NotAllowed, as the next two do."""
        if not self.may_publish(topic):
            raise NotAllowed(Cause.PUBLISH, f'not allowed to publish to "{topic}" with {self.who}')

    def check_subscribe(self, pattern: Pattern) -> None:
        if not self.may_subscribe(pattern):
            raise NotAllowed(Cause.SUBSCRIBE, f'not allowed to subscribe to "{pattern}" with {self.who}')

    def check_admin(self, what: str) -> None:
        """``what`` completes the sentence: ``not allowed to seek group g with key k3``."""
        if not self.admin:
            raise NotAllowed(Cause.ADMIN, f"not allowed to {what} with {self.who}: it needs the admin right")


def _is_own(name: str) -> bool:
    """A wildcard in front does not reach the mesh's own topics, as in ``weft.core``."""
    return name.split(".", 1)[0] == OWN_TOKEN


def owner_of(kind: str, name: str) -> str:
    """What topics call the owner of that name. ``kind``: what gave the name, a key or a certificate."""
    return sha256(f"weft owner\0{kind}\0{name}".encode()).digest()[:OWNER_BYTES].hex()
