"""A group's position in every stream, and which positions still have to be announced to other nodes.

``Place`` orders three sources: what members here handled, what people moved by hand, what other nodes said. The log
keeps offsets without versions. A node writes an offset to its log before it announces it, so an offset in the log
belongs to the version that this node announced last, or to a later one. If it belongs to a later one, some events are
handled again.

A living node repeats what a dead node said, because nodes that join later cannot hear the dead one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from weft.core.groups.events import Place
from weft.core.groups.ledger import Ledger
from weft.core.messages import StreamKey
from weft.limits import OFFSET_MAX
from weft.model import Epoch, NodeId, Position

NO_EPOCH: Final = Epoch(0)  # no node has this epoch
GROUP_POSITIONS_MAX: Final = 100_000  # of one group: ten nodes that each hold as many streams as they can


class Places:
    def __init__(self, logged: Iterable[Position]) -> None:
        self._logged = {(each.stream, each.epoch): each.offset for each in logged}
        self._places = {key: Place(0, offset) for key, offset in self._logged.items()}
        self._sources: dict[StreamKey, tuple[NodeId, Epoch]] = {}  # the last to announce it, unless it was this node
        self._unsaid = dict.fromkeys(self._logged)  # recall removes those said in an earlier life
        self.ledgers: dict[StreamKey, Ledger] = {}  # for streams with more than a position
        self.said: dict[StreamKey, None] = {}  # positions that this node has said, now or in an earlier life
        self.ledgers_said: dict[StreamKey, None] = {}  # the same for ledgers

    @property
    def unsaid(self) -> bool:
        return bool(self._unsaid)

    @property
    def all(self) -> Mapping[StreamKey, Place]:
        return self._places

    def get(self, key: StreamKey) -> Place | None:
        return self._places.get(key)

    def version(self, key: StreamKey) -> int:
        place = self._places.get(key)
        return place.version if place else 0

    def end(self) -> tuple[dict[StreamKey, Any], ...]:
        """Hand over what is known of streams, so that the caller can free it bit by bit."""
        return self._logged, self._places, self._sources, self._unsaid, self.ledgers

    def has_room_for(self, keys: set[StreamKey]) -> bool:
        new = sum(key not in self._places for key in keys)
        return not new or len(self._places) + new <= GROUP_POSITIONS_MAX

    def advance(self, key: StreamKey, offset: int) -> bool:
        """A member here has handled everything before ``offset``; return whether that is new."""
        return self._put(key, Place(self.version(key), offset))

    def move(self, key: StreamKey, offset: int) -> None:
        """Move the group to this offset by hand, whatever it has handled."""
        self._put(key, Place(min(self.version(key) + 1, OFFSET_MAX), offset))

    def note(self, key: StreamKey) -> None:
        """Note that the stream's ledger has something new to announce."""
        if key in self._places:
            self._own(key)

    def hear(self, key: StreamKey, place: Place, origin: NodeId, epoch: Epoch) -> bool:
        """Take a place that another node announced; return whether it is new."""
        known = self._places.get(key)
        if known is not None and place < known:
            return False
        self._set(key, place)
        self._sources[key] = origin, epoch
        if key not in self.ledgers:
            self._unsaid.pop(key, None)  # others have said it, or it is out of date
        return place != known

    def hear_ledger(self, key: StreamKey, version: int, ledger: Ledger) -> bool:
        """Take a ledger that another node, or this one in an earlier life, announced right after its place. Return
        whether it counts. It does not if the group was moved since, because a move begins an empty ledger."""
        place = self._places.get(key)
        if place is None or place.version != version:
            return False
        self.ledgers.setdefault(key, Ledger()).join(ledger)
        self._set(key, place)
        return True

    def recall(self, key: StreamKey, place: Place) -> None:
        """Take a place that this node announced in an earlier life. The offset in its log belongs to this version, or
        to a later one that other nodes know."""
        self.said[key] = None
        logged = Place(place.version, max(place.offset, self._logged.get(key, 0)))
        if logged < self._places.get(key, logged):
            return  # another node has announced a later place
        self._set(key, logged)
        self._sources.pop(key, None)
        if logged == place:
            self._unsaid.pop(key, None)
        else:
            self._unsaid[key] = None  # handled and written, but not announced in time

    def adopt(self, lives: Mapping[NodeId, Epoch]) -> list[Position]:
        """Take over the places last announced by nodes that are gone or have lost their log. Return the positions,
        which the caller has to write to this node's log."""
        orphans = [key for key, (node, epoch) in self._sources.items() if lives.get(node) != epoch]
        for key in orphans:
            del self._sources[key]
            self._own(key)
        return [Position(*key, self._places[key].offset) for key in orphans]

    def disown(self, key: StreamKey, origin: NodeId) -> bool:
        """Note that a node withdraws its place in a stream. Return whether that node announced it last; if so, the
        place now counts as announced by a node that is gone."""
        found = self._sources.get(key)
        if found is None or found[0] != origin:
            return False
        self._sources[key] = origin, NO_EPOCH
        return True

    def take_unsaid(self, most: int) -> Iterator[tuple[StreamKey, Place, Ledger | None]]:
        """Yield what has to be announced now, at most so many places. Places that the caller does not take stay
        unsaid."""
        for key in list(islice(self._unsaid, most)):
            ledger = self.ledgers.get(key)
            self._sources.pop(key, None)
            del self._unsaid[key]
            self.said[key] = None
            if ledger:
                self.ledgers_said[key] = None
            yield key, self._places[key], ledger

    def _put(self, key: StreamKey, place: Place) -> bool:
        known = self._places.get(key)
        if known is not None and place <= known:
            return False
        self._set(key, place)
        self._own(key)
        return True

    def _set(self, key: StreamKey, place: Place) -> None:
        """Set a place. With the same version, the ledger keeps what lies after the place; with a new version, it begins
        empty."""
        known, self._places[key] = self._places.get(key), place
        ledger = self.ledgers.get(key)
        if ledger is None:
            return
        if known is not None and known.version != place.version:
            del self.ledgers[key]
            return
        offset = ledger.trim(place.offset)
        if offset > place.offset:
            self._places[key] = Place(place.version, offset)
        if not ledger:
            del self.ledgers[key]

    def _own(self, key: StreamKey) -> None:
        self._logged.pop(key, None)  # from now on, the log has the same position as ``_places``
        self._unsaid[key] = None
