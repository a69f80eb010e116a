"""What a caller may do: publish and subscribe by topic pattern, use groups by name, and administer (SEC-02).

Topics below ``weft.`` belong to the mesh itself, so a right has to name that first token to reach them: ``>`` means
every topic of every user and nothing else. Some of them have an owner, which needs no further right (SEC-03,
``model.topic``): what Spark jobs stage and decide is read and written by its owner; an inbox is read by its owner, and
written to by callers that know its id from a request. Administrators see all of them.

Serving requests needs a right to subscribe to ``weft.serve.<pattern>``. That names the mesh's own token, so ``>`` is
not enough.

A right to groups is a name, or the beginning of one and a star: ``billing*``. It is needed for everything about a
group: joining it, moving it, seeing its positions, dropping it. Keys that are older than these rights have none of
them, and are judged by what the group reads (``reads``): they may use it if they may subscribe to all of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from weft.errors import UsageError
from weft.model import Pattern, Topic, covers, matches, overlaps
from weft.model.later import LATER_PREFIX
from weft.model.topic import OwnedKind, read_owned
from weft.security.errors import Cause, NotAllowed

OWN_TOKEN: Final = "weft"  # noqa: S105  of topics, no secret
OWNER_BYTES: Final = 8  # of a digest: nobody can choose names until two have the same
NOBODY: Final = ""  # owns nothing
EVERY_GROUP: Final = "*"
GROUP_RIGHT: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?\*?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Acl:
    """``who`` is the caller's name in refusals: ``key k3``; ``owner`` is its name in the topics that it owns.

    ``groups``: None for a key that was made before there were such rights.
    """

    who: str
    publish: tuple[Pattern, ...] = ()
    subscribe: tuple[Pattern, ...] = ()
    admin: bool = False
    owner: str = NOBODY
    groups: tuple[str, ...] | None = ()

    def may_publish(self, topic: Topic) -> bool:
        owned = read_owned(topic)
        if owned is not None and (owned.kind is OwnedKind.INBOX or owned.owner == self.owner):
            return True
        return any(matches(pattern, topic) and _is_own(pattern) == _is_own(topic) for pattern in self.publish)

    def may_subscribe(self, pattern: Pattern) -> bool:
        """Whether one right covers everything that the pattern selects. Two that do so together do not count."""
        if pattern.startswith(LATER_PREFIX):
            return False  # other calls report waiting events, to their owner
        owned = read_owned(pattern)
        if owned is not None and (self.admin or owned.owner == self.owner):
            return True
        return any(covers(each, pattern) and _is_own(each) == _is_own(pattern) for each in self.subscribe)

    def reaches(self, pattern: Pattern) -> bool:
        """Whether it may read or publish some topic that the pattern selects."""
        rights = (*self.publish, *self.subscribe)
        return self.admin or any(overlaps(each, pattern) and _is_own(each) == _is_own(pattern) for each in rights)

    @property
    def names_groups(self) -> bool:
        """Whether its rights to groups can be told from the groups' names alone."""
        return self.admin or self.groups is not None

    def may_use_group(self, group: str, reads: Iterable[Pattern] = ()) -> bool:
        """``reads``: where the group has positions and what its members want. Counts only for keys without rights to
        groups."""
        if self.admin:
            return True
        if self.groups is None:
            return all(map(self.may_subscribe, reads))
        return any(covers_group(right, group) for right in self.groups)

    def check_publish(self, topic: Topic) -> None:
        """Raise NotAllowed, as the next four do."""
        if not self.may_publish(topic):
            raise NotAllowed(Cause.PUBLISH, f'not allowed to publish to "{topic}" with {self.who}')

    def check_subscribe(self, pattern: Pattern) -> None:
        if not self.may_subscribe(pattern):
            raise NotAllowed(Cause.SUBSCRIBE, f'not allowed to subscribe to "{pattern}" with {self.who}')

    def check_serve(self, pattern: Pattern) -> None:
        """A server takes requests that other servers would get, so a right to read is not enough; one to administer
        is."""
        needed = Pattern(f"weft.serve.{pattern}")
        if not self.admin and not self.may_subscribe(needed):
            raise NotAllowed(
                Cause.SUBSCRIBE,
                f'not allowed to serve "{pattern}" with {self.who}: it needs the right to subscribe to "{needed}"',
            )

    def check_group(self, group: str, reads: Iterable[Pattern] = ()) -> None:
        if self.may_use_group(group, reads):
            return
        why = "it has no right to groups of that name (weft keys create --group)"
        if not self.names_groups:
            why = "it is older than rights to groups, and may not subscribe to everything that the group reads"
        raise NotAllowed(Cause.GROUP, f'not allowed to use group "{group}" with {self.who}: {why}')

    def check_admin(self, what: str) -> None:
        """``what`` completes the sentence: ``not allowed to seek group g with key k3``."""
        if not self.admin:
            raise NotAllowed(Cause.ADMIN, f"not allowed to {what} with {self.who}: it needs the admin right")

    def check_give(self, publish: tuple[Pattern, ...], subscribe: tuple[Pattern, ...]) -> None:
        """Raise NotAllowed unless the caller has these rights itself: nobody can give more than they have."""
        self.check_admin("make keys")
        for verb, own, given in (("publish", self.publish, publish), ("subscribe", self.subscribe, subscribe)):
            for pattern in given:
                if not any(covers(each, pattern) and _is_own(each) == _is_own(pattern) for each in own):
                    raise NotAllowed(
                        Cause.ADMIN,
                        f'not allowed to give the right to {verb} to "{pattern}" with {self.who}: '
                        "the key itself lacks this right",
                    )


def _is_own(name: str) -> bool:
    """A wildcard at the beginning does not reach the mesh's own topics, as in ``weft.core``."""
    return name.split(".", 1)[0] == OWN_TOKEN


def covers_group(right: str, group: str) -> bool:
    """Whether a right to groups covers one: by its name, or by the beginning of it."""
    return group.startswith(right[:-1]) if right.endswith("*") else group == right


def parse_group_right(text: str) -> str:
    """Parse a right to groups, or raise UsageError."""
    if not text or not GROUP_RIGHT.fullmatch(text):
        raise UsageError(
            f"{text[:80]!r} is not a right to groups: write a name, or the beginning of a name and a star: billing*"
        )
    return text


def owner_of(kind: str, name: str) -> str:
    """The name of an owner in topics. ``kind``: what proves the name, a key or a certificate."""
    return sha256(f"weft owner\0{kind}\0{name}".encode()).digest()[:OWNER_BYTES].hex()
