"""What a caller may do: publish and subscribe by topic pattern, and administer (SEC-02).

Topics below ``weft.`` are the mesh's own, so a right has to name that first token to reach them: ``>`` is every topic
of every user and nothing else. Some of them are open to all, because they belong to whoever knows their id, which
nobody can guess: an inbox, ``weft.inbox.<id>``, is told to those who are asked for a reply; ``weft.staging.<id>`` and
``weft.decisions.<id>`` are known to one job of Spark, which writes from there to topics that it needs rights for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.model import Pattern, Topic, covers, matches
from weft.security.errors import Cause, NotAllowed

OWN_TOKEN: Final = "weft"  # noqa: S105  of topics, no secret
OPEN_PREFIXES: Final = ("weft.inbox.", "weft.staging.", "weft.decisions.")
OPEN_DOTS: Final = 2  # a prefix and an id, nothing behind it
WILDCARDS: Final = ("*", ">")


@dataclass(frozen=True, slots=True)
class Acl:
    """``who`` is how refusals name the caller: ``key k3``."""

    who: str
    publish: tuple[Pattern, ...] = ()
    subscribe: tuple[Pattern, ...] = ()
    admin: bool = False

    def may_publish(self, topic: Topic) -> bool:
        return _is_open(topic) or any(
            matches(pattern, topic) and _is_own(pattern) == _is_own(topic) for pattern in self.publish
        )

    def may_subscribe(self, pattern: Pattern) -> bool:
        """Whether one right covers all that the pattern selects. Two that do so together do not count."""
        return _is_open(pattern) or any(
            covers(each, pattern) and _is_own(each) == _is_own(pattern) for each in self.subscribe
        )

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


def _is_open(name: str) -> bool:
    _, _, last = name.rpartition(".")
    return name.startswith(OPEN_PREFIXES) and name.count(".") == OPEN_DOTS and last not in WILDCARDS
