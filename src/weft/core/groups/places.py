"""A group's position in every stream, and which positions other nodes still have to be told.

``Place`` orders three sources: what members here handled, what people moved by hand, what other nodes said. The log
keeps offsets without versions. They belong at least to the version that this node said last, because it writes to its
log before it speaks. If they belong to a later one, some events are handled again.

What a dead node said is repeated by a living one, because nodes that come later do not hear the dead one.
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
GROUP_POSITIONS_MAX: Final = 100_000  # of one group: ten nodes with as many streams as each can hold


class Places:
    def __init__(self, logged: Iterable[Position]) -> None:
        self._logged = {(each.stream, each.epoch): each.offset for each in logged}
        self._places = {key: Place(0, offset) for key, offset in self._logged.items()}
        self._sources: dict[StreamKey, tuple[NodeId, Epoch]] = {}  # the node that said it last, unless it was this one
        self._unsaid = dict.fromkeys(self._logged)  # unless it was said in an earlier life, see recall
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
        """Give up what it knew, so that it can be freed bit by bit."""
        return self._logged, self._places, self._sources, self._unsaid, self.ledgers

    def has_room_for(self, keys: set[StreamKey]) -> bool:
        new = sum(key not in self._places for key in keys)
        return not new or len(self._places) + new <= GROUP_POSITIONS_MAX

    def advance(self, key: StreamKey, offset: int) -> bool:
        """A member here has handled everything before ``offset``; return whether that is new."""
        return self._put(key, Place(self.version(key), offset))

    def move(self, key: StreamKey, offset: int) -> None:
        """Somebody moves the group there, whatever it has handled."""
        self._put(key, Place(min(self.version(key) + 1, OFFSET_MAX), offset))

    def note(self, key: StreamKey) -> None:
        """The stream's ledger has something new."""
        if key in self._places:
            self._own(key)

    def hear(self, key: StreamKey, place: Place, origin: NodeId, epoch: Epoch) -> bool:
        """Another node said this place; return whether it is new."""
        known = self._places.get(key)
        if known is not None and place < known:
            return False
        self._set(key, place)
        self._sources[key] = origin, epoch
        if key not in self.ledgers:
            self._unsaid.pop(key, None)  # others have said it, or it is out of date
        return place != known

    def hear_ledger(self, key: StreamKey, version: int, ledger: Ledger) -> bool:
        """Another node, or this one in an earlier life, said this ledger right after the place. Return whether it
        counts: a group that was moved since begins with an empty one."""
        place = self._places.get(key)
        if place is None or place.version != version:
            return False
        self.ledgers.setdefault(key, Ledger()).join(ledger)
        self._set(key, place)
        return True

    def recall(self, key: StreamKey, place: Place) -> None:
        """This node said this place in an earlier life. Its log's offset belongs to this version, or to one that others
        know."""
        self.said[key] = None
        logged = Place(place.version, max(place.offset, self._logged.get(key, 0)))
        if logged < self._places.get(key, logged):
            return  # another node knew a later one
        self._set(key, logged)
        self._sources.pop(key, None)
        if logged == place:
            self._unsaid.pop(key, None)
        else:
            self._unsaid[key] = None  # handled and written, but not announced in time

    def adopt(self, lives: Mapping[NodeId, Epoch]) -> list[Position]:
        """Take over what was last said by nodes that are gone or have lost their log; the log must have it, too."""
        orphans = [key for key, (node, epoch) in self._sources.items() if lives.get(node) != epoch]
        for key in orphans:
            del self._sources[key]
            self._own(key)
        return [Position(*key, self._places[key].offset) for key in orphans]

    def disown(self, key: StreamKey, origin: NodeId) -> bool:
        """A node withdraws this; return whether it said it last. Then it counts as said by a node that is gone."""
        found = self._sources.get(key)
        if found is None or found[0] != origin:
            return False
        self._sources[key] = origin, NO_EPOCH
        return True

    def take_unsaid(self, most: int) -> Iterator[tuple[StreamKey, Place, Ledger | None]]:
        """What has to be said now, at most so much, and as far as the caller goes."""
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
        """Set a place. The part of the ledger behind it stays; with a new version, the ledger begins empty."""
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
        self._logged.pop(key, None)  # from now on, the log has what is here
        self._unsaid[key] = None
