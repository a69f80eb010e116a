"""How exceptions become codes for clients."""

from __future__ import annotations

import pytest

from weft.core.errors import CopiesMissing, TopicReserved
from weft.errors import PeerError, StorageError, UsageError, WeftError
from weft.limits import ERROR_TEXT_CHARS_MAX
from weft.log.errors import (
    DiskFull,
    EventsLost,
    LogInUse,
    Loss,
    OutOfSequence,
    PositionAhead,
    PositionExpired,
    SequenceReused,
    StoreCorrupt,
    UnknownStream,
)
from weft.model import BadBatch, BadName, BadPattern, BadTopic, Epoch, NodeId, Stream, Topic
from weft.port.errors import Busy, ShuttingDown, TooLarge, code_of, error_message
from weft.wire.mesh import BadMeshMessage
from weft.wire.mesh import mesh_pb2 as pb

LOST = Loss(Stream(Topic("t"), NodeId("a"), 0), Epoch(1), 3, 5)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadBatch("x"), pb.ERROR_BAD_BATCH),
        (BadTopic("x"), pb.ERROR_BAD_REQUEST),
        (BadPattern("x"), pb.ERROR_BAD_REQUEST),
        (BadName("x"), pb.ERROR_BAD_REQUEST),
        (BadMeshMessage("x"), pb.ERROR_BAD_REQUEST),
        (UsageError("x"), pb.ERROR_BAD_REQUEST),
        (PeerError("x"), pb.ERROR_BAD_REQUEST),
        (TopicReserved("x"), pb.ERROR_NOT_ALLOWED),
        (TooLarge("x"), pb.ERROR_TOO_LARGE),
        (PositionExpired("x"), pb.ERROR_POSITION_EXPIRED),
        (PositionAhead("x"), pb.ERROR_POSITION_UNKNOWN),
        (UnknownStream("x"), pb.ERROR_POSITION_UNKNOWN),
        (OutOfSequence("x"), pb.ERROR_OUT_OF_SEQUENCE),
        (SequenceReused("x"), pb.ERROR_SEQUENCE_REUSED),
        (CopiesMissing("x"), pb.ERROR_COPIES),
        (Busy("x"), pb.ERROR_BUSY),
        (ShuttingDown("x"), pb.ERROR_SHUTTING_DOWN),
        (DiskFull("x"), pb.ERROR_DISK_FULL),
        (EventsLost(LOST, "why"), pb.ERROR_CORRUPT),
        (StoreCorrupt("x"), pb.ERROR_CORRUPT),
        (LogInUse("x"), pb.ERROR_SHUTTING_DOWN),
        (StorageError("x"), pb.ERROR_SHUTTING_DOWN),
        (WeftError("x"), pb.ERROR_UNSPECIFIED),
    ],
)
def test_every_error_has_its_code(error: WeftError, code: int) -> None:
    assert code_of(error) == code


def test_facts_come_along_for_programs_and_are_bounded() -> None:
    message = error_message(PositionExpired("no longer there", earliest=7, latest=9, more="x" * 5000))
    assert message.message == "no longer there", "who reads it puts the facts behind it"
    assert (message.facts["earliest"], message.facts["latest"]) == ("7", "9")
    assert len(message.facts["more"]) == ERROR_TEXT_CHARS_MAX
    assert len(error_message(PositionExpired("x" * 5000)).message) == ERROR_TEXT_CHARS_MAX
