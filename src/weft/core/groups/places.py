"""Where a group stands in every stream, and what of that other nodes have still to be told.

Three sources agree by ``Place``: what members here handled, what people moved by hand, what other nodes said. The log
keeps offsets without versions. What it has belongs at least to the version that this node said last: it writes to its
log before it speaks. If it belongs to a later one, some events are handled again.

What was said by a node that is gone is said again by another one: nodes that come later do not hear the dead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

from weft.core.groups.events import Place
from weft.core.groups.ledger import Ledger
from weft.core.messages import StreamKey
from weft.limits import OFFSET_MAX
from weft.model import Epoch, NodeId, Position

NO_EPOCH: Final = Epoch(0)  # no node is in it
GROUP_POSITIONS_MAX: Final = 100_000  # of one group: ten nodes with as many streams as they can hold


class Places:
    def __init__(self, logged: Iterable[Position]) -> None:
        self._logged = {(each.stream, each.epoch): each.offset for each in logged}
        self._places = {key: Place(0, offset) for key, offset in self._logged.items()}
        self._sources: dict[StreamKey, tuple[NodeId, Epoch]] = {}  # who said it last, unless it was this node
        self._unsaid = dict.fromkeys(self._logged)  # unless it was said in an earlier life, see recall
        self.ledgers: dict[StreamKey, Ledger] = {}  # where there is more to know than the position
        self.said: dict[StreamKey, None] = {}  # of which this node has said something, now or in an earlier life
        self.ledgers_said: dict[StreamKey, None] = {}  # the same, of their ledgers

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
        """Not used any more: what it knew, for whoever frees that."""
        return self._logged, self._places, self._sources, self._unsaid, self.ledgers

    def has_room_for(self, keys: set[StreamKey]) -> bool:
        new = sum(key not in self._places for key in keys)
        return not new or len(self._places) + new <= GROUP_POSITIONS_MAX

    def advance(self, key: StreamKey, offset: int) -> bool:
        """A member here has handled everything before ``offset``; whether that is new."""
        return self._put(key, Place(self.version(key), offset))

    def move(self, key: StreamKey, offset: int) -> None:
        """Somebody wants the group to stand there, whatever it has handled."""
        self._put(key, Place(min(self.version(key) + 1, OFFSET_MAX), offset))

    def note(self, key: StreamKey) -> None:
        """Its ledger has something new."""
        if key in self._places:
            self._own(key)

    def hear(self, key: StreamKey, place: Place, origin: NodeId, epoch: Epoch) -> bool:
        """Another node said it; whether that is new."""
        known = self._places.get(key)
        if known is not None and place < known:
            return False
        self._set(key, place)
        self._sources[key] = origin, epoch
        if key not in self.ledgers:
            self._unsaid.pop(key, None)  # said by others, or out of date
        return place != known

    def hear_ledger(self, key: StreamKey, version: int, ledger: Ledger) -> bool:
        """A node said it, this one in an earlier life included, right after the place. Whether it counts: a group that
        was moved since begins with a clean one."""
        place = self._places.get(key)
        if place is None or place.version != version:
            return False
        self.ledgers.setdefault(key, Ledger()).join(ledger)
        self._set(key, place)
        return True

    def recall(self, key: StreamKey, place: Place) -> None:
        """This node said it in an earlier life. What its log has is of this version, or of one that others know."""
        self.said[key] = None
        logged = Place(place.version, max(place.offset, self._logged.get(key, 0)))
        if logged < self._places.get(key, logged):
            return  # somebody else knew better
        self._set(key, logged)
        self._sources.pop(key, None)
        if logged == place:
            self._unsaid.pop(key, None)
        else:
            self._unsaid[key] = None  # handled and written, but not said in time

    def adopt(self, lives: Mapping[NodeId, Epoch]) -> list[Position]:
        """Make ours what was said last by nodes that are gone, or whose log is; the log has to have it, too."""
        orphans = [key for key, (node, epoch) in self._sources.items() if lives.get(node) != epoch]
        for key in orphans:
            del self._sources[key]
            self._own(key)
        return [Position(*key, self._places[key].offset) for key in orphans]

    def disown(self, key: StreamKey, origin: NodeId) -> bool:
        """A node says this no longer; whether it said it last. Then it is as if that node were gone."""
        found = self._sources.get(key)
        if found is None or found[0] != origin:
            return False
        self._sources[key] = origin, NO_EPOCH
        return True

    def take_unsaid(self, most: int) -> list[tuple[StreamKey, Place, Ledger | None]]:
        """What is to be said now, so much of it at most."""
        keys = list(islice(self._unsaid, most))
        said = [(key, self._places[key], self.ledgers.get(key)) for key in keys]
        for key in keys:
            self._sources.pop(key, None)
            del self._unsaid[key]
            self.said[key] = None
        self.ledgers_said.update((key, None) for key, _, ledger in said if ledger)
        return said

    def _put(self, key: StreamKey, place: Place) -> bool:
        known = self._places.get(key)
        if known is not None and place <= known:
            return False
        self._set(key, place)
        self._own(key)
        return True

    def _set(self, key: StreamKey, place: Place) -> None:
        """What a ledger has beyond the new place stays; with a new version, it begins again."""
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
        self._logged.pop(key, None)  # from now on the log has what is here
        self._unsaid[key] = None
