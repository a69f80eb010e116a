"""Replies that grow with the mesh come in pages of bounded size (SEC-05).

A client that asks for a page gets one, and a token for the next page. An older client, which does not know pages, gets
everything at once, as long as that fits into one message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from google.protobuf.message import DecodeError

from weft.errors import UsageError
from weft.limits import MIB
from weft.model import Epoch, Stream
from weft.port.errors import TooLarge
from weft.wire.mesh import BadMeshMessage
from weft.wire.mesh import mesh_pb2 as pb
from weft.wire.mesh.streams import read_stream_untrusted, stream_ref

PAGE_BYTES_MAX: Final = 1 * MIB  # a few milliseconds to make, and little to hold for a client that does not read
PAGE_ENTRIES_MAX: Final = 4096  # the same for entries, however small
WHOLE_BYTES_MAX: Final = 15 * MIB  # without pages: clients of every version accept a message of this size


class PagedRequest(Protocol):
    """A message with a field ``page``."""

    @property
    def page(self) -> pb.Page: ...

    def HasField(self, field_name: Literal["page"]) -> bool: ...  # noqa: N802 - protobuf's name


@dataclass(slots=True)
class PageRoom:
    """How much still fits into a reply. ``is_paged``: the client can ask for the rest."""

    is_paged: bool
    entries_left: int
    bytes_left: int

    @classmethod
    def wanted(cls, limit: int | None) -> PageRoom:
        """The room for a request with this limit of entries. None: the client does not know pages. 0: as many as
        fit."""
        if limit is None:
            return cls(False, WHOLE_BYTES_MAX, WHOLE_BYTES_MAX)
        return cls(True, min(limit or PAGE_ENTRIES_MAX, PAGE_ENTRIES_MAX), PAGE_BYTES_MAX)

    @property
    def is_full(self) -> bool:
        """Look at this before adding an entry. If the reply is full and the client cannot ask for the rest, this raises
        TooLarge."""
        if self.entries_left > 0 and self.bytes_left > 0:
            return False
        if not self.is_paged:
            raise TooLarge(
                "the answer is too large for one reply: ask for pages, or for less",
                limit=WHOLE_BYTES_MAX,
                advice="newer clients ask for pages automatically",
            )
        return True

    def take(self, size: int) -> None:
        self.entries_left -= 1
        self.bytes_left -= size


def room_for(request: PagedRequest) -> PageRoom:
    return PageRoom.wanted(request.page.limit if request.HasField("page") else None)


def stream_token(stream: Stream, epoch: Epoch) -> bytes:
    """The token for the page after this stream."""
    token: bytes = stream_ref(stream, epoch).SerializeToString()
    return token


def read_stream_token_untrusted(token: bytes) -> tuple[Stream, Epoch] | None:
    if not token:
        return None
    ref = pb.StreamRef()
    try:
        ref.ParseFromString(token)
        return read_stream_untrusted(ref)
    except (DecodeError, BadMeshMessage):
        raise UsageError("not the token of a page: send the one that came with the page before") from None


def read_text_token_untrusted(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise UsageError("not the token of a page: send the one that came with the page before") from None
