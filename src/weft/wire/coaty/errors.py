"""The one error of this room, and how a complaint about a value becomes one about a peer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import PeerError, UsageError


class BadCoatyMessage(PeerError):
    """A topic, payload, filter or liveliness frame from outside that breaks the rules: it is dropped, the link stays.

    ``at`` (where given) is the offset of the offending byte, or the path of the offending JSON member.
    """


@contextmanager
def blaming_peer() -> Iterator[None]:
    """Values check themselves and blame their maker. While reading what a peer sent, that is the peer."""
    try:
        yield
    except UsageError as error:
        raise BadCoatyMessage(error.what, **error.facts) from None
