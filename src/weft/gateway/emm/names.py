"""Which event names a device may use (SEC-03): the patterns that the trust store has for it.

A device without patterns may use every name. What only a group key proves (EMM-C's notifications) is not checked: it
comes from no particular device, and its only names are ``notification.<priority>``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from weft.gateway.emm.topics import topic_name
from weft.model import Pattern, Topic, matches
from weft.wire.columns import cells, raw_bytes
from weft.wire.emm import EventType, Packet
from weft.wire.emm.judge_columns import JudgedRows
from weft.wire.emm_compact import Command, FieldType, find
from weft.wire.reject import BadPacket, Reject

ANSWERS_KEPT_MAX: Final = 10_000  # by sender and name, because the same ones come again. About 2 MiB

# By node id, and by the fingerprint by which EMM-C may name a key. Each of the lists has to have a matching pattern,
# because several devices may share a key.
NamesBySender = Mapping[bytes, Sequence[tuple[Pattern, ...]]]


class NameRights:
    """Names are compared as the topics that they become: ``line 1`` is ``line_1``."""

    def __init__(self, names: NamesBySender | None = None) -> None:
        self._names = names or {}
        self._answers: dict[tuple[bytes, str], bool] = {}

    def use(self, names: NamesBySender) -> None:
        """Use these from now on."""
        self._names = names
        self._answers.clear()

    def may_use(self, sender: bytes, name: str) -> bool:
        lists = self._names.get(sender)
        if lists is None:
            return True
        found = self._answers.get((sender, name))
        if found is None:
            if len(self._answers) >= ANSWERS_KEPT_MAX:
                self._answers.clear()
            topic = Topic(topic_name(name))
            found = all(any(matches(pattern, topic) for pattern in patterns) for patterns in lists)
            self._answers[sender, name] = found
        return found

    def check(self, packet: Packet) -> None:
        """Raise BadPacket. Hellos and heartbeats have no name."""
        if packet.kind is EventType.EVENT and packet.node_id is not None:
            self._check(packet.node_id.bytes, packet.event_name or "")

    def check_command(self, name: str, command: Command) -> None:
        """``name``: of the event that the command becomes. The sender is the one whose signature was checked."""
        node_id = find(command.more, FieldType.NODE_ID)
        sender = find(command.more, FieldType.NODE_FINGERPRINT) if node_id is None else node_id
        if sender is not None:
            self._check(sender, name)

    def _check(self, sender: bytes, name: str) -> None:
        if not self.may_use(sender, name):
            raise BadPacket(Reject.NAME, "the device may not use this name", sender=sender.hex(), name=name)

    def refuse(self, rows: JudgedRows) -> None:
        """Do ``check`` for all accepted rows. Their seals are open."""
        if not self._names:  # as in most gateways
            return
        is_event = rows.columns.column("event_type").to_numpy(zero_copy_only=False) == EventType.EVENT
        chosen = np.flatnonzero(rows.accepted & is_event & rows.has("node_id"))
        if not len(chosen):
            return
        columns = rows.chosen(chosen)
        senders = cells(raw_bytes(columns.column("node_id")))
        names = columns.column("event_name").to_pylist()
        for row, sender, plain in zip(chosen.tolist(), senders, names, strict=True):
            opened = rows.opened.get(row)
            name = plain if opened is None else opened.event_name
            if not self.may_use(sender, name or ""):
                rows.refuse_row(row, Reject.NAME)
