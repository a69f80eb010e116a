"""Commands run only if they are signed, known by name and sound (EMC-07)."""

from __future__ import annotations

import msgspec
import pytest

from weft.errors import UsageError
from weft.wire.emm_compact import (
    Command,
    EventType,
    Field,
    Format,
    Handler,
    Header,
    KeyRing,
    Notification,
    Packet,
    Priority,
    Signer,
    execute_untrusted,
    seal,
)
from weft.wire.emm_compact.codes import FieldType
from weft.wire.reject import BadPacket, Reject

SIGNER, STRANGER = Signer(bytes(16), bytes(32)), Signer(bytes(16), bytes([1]) * 32)
NODE_ID = bytes(16)
RING = KeyRing((bytes(16),), {NODE_ID: (SIGNER.public_key,)})


class SetLevel(msgspec.Struct):
    level: str


def command(name: str, parameters: bytes, signer: Signer = SIGNER) -> Packet:
    body = Command(name, parameters, (Field(FieldType.NODE_ID, NODE_ID),))
    return seal(Header(EventType.COMMAND, 1, 2, 3), body, signer)


@pytest.fixture
def ran() -> list[SetLevel]:
    return []


@pytest.fixture
def handlers(ran: list[SetLevel]) -> dict[str, Handler]:
    return {"log.level": Handler(msgspec.json.Decoder(SetLevel).decode, ran.append)}


@pytest.mark.req("EMC-07")
def test_a_registered_command_runs(handlers: dict[str, Handler], ran: list[SetLevel]) -> None:
    assert execute_untrusted(command("log.level", b'{"level":"debug"}'), RING, handlers)
    assert ran == [SetLevel("debug")]


@pytest.mark.parametrize("name", ["log.Level", "log", "__class__", "log.level "])
@pytest.mark.req("EMC-07")
def test_unknown_commands_are_ignored(handlers: dict[str, Handler], ran: list[SetLevel], name: str) -> None:
    assert not execute_untrusted(command(name, b'{"level":"debug"}'), RING, handlers)
    assert ran == []


@pytest.mark.parametrize("parameters", [b"", b"{}", b'{"level":1}', b'{"level":"\xff"}', b"[" * 80])
@pytest.mark.req("EMC-07")
def test_wrong_parameters_do_not_run(handlers: dict[str, Handler], ran: list[SetLevel], parameters: bytes) -> None:
    with pytest.raises(BadPacket) as caught:
        execute_untrusted(command("log.level", parameters), RING, handlers)
    assert caught.value.reason is Reject.TLV_VALUE
    assert ran == []


@pytest.mark.parametrize("name", ["log.level", "unknown"])
@pytest.mark.req("EMC-05", "EMC-07")
def test_the_signature_comes_first(handlers: dict[str, Handler], ran: list[SetLevel], name: str) -> None:
    with pytest.raises(BadPacket) as caught:
        execute_untrusted(command(name, b'{"level":"debug"}', STRANGER), RING, handlers)
    assert caught.value.reason is Reject.BAD_SIGNATURE
    assert ran == []


def test_only_commands_are_executed(handlers: dict[str, Handler]) -> None:
    body = Notification(Priority.INFO, Format.PLAIN_TEXT, b"log.level")
    with pytest.raises(UsageError):
        execute_untrusted(seal(Header(EventType.NOTIFICATION, 1, 2, 3), body, SIGNER), RING, handlers)
