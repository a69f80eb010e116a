"""Captured EXMP bytes taken apart for people, every byte named."""

from __future__ import annotations

from typing import assert_never

from weft.limits import EXMP_MESSAGE_BYTES_MAX
from weft.wire.describe import Part
from weft.wire.exmp.application import decode_operation_untrusted, decode_outcome_untrusted
from weft.wire.exmp.codec import ERROR, EXCHANGE, HEADER
from weft.wire.exmp.framing import LENGTH, messages_untrusted
from weft.wire.exmp.messages import BadMessage, Bye, Error, ErrorCode, Hello, Message, Ping, Pong, Request, Response


def describe_untrusted(data: bytes) -> Part:
    """Any number of messages with their lengths before them; raise only BadMessage.

    Application data that is not what a request or a response should say is shown with the reason, not refused.
    """
    parts = [_message(data, *found) for found in messages_untrusted(data, EXMP_MESSAGE_BYTES_MAX)]
    return Part("exmp", 0, len(data), f"{len(parts)} message{'' if len(parts) == 1 else 's'}", tuple(parts))


def _message(data: bytes, at: int, end: int, message: Message) -> Part:
    start = at + LENGTH.size
    body_at = start + HEADER.size
    name = message.type.name.lower()
    head = (
        Part("length", at, LENGTH.size, str(end - start)),
        Part("type", start, 1, f"{message.type.value} ({name})"),
        _unused(data, start + 1),
    )
    body: tuple[Part, ...]
    match message:
        case Hello(version):
            body = (Part("version", body_at, 1, str(version)), _unused(data, body_at + 1))
        case Ping(rest):
            body = (Part("body", body_at, len(rest), f"{rest.hex()} (a ping has none)"),) if rest else ()
        case Bye() | Pong():
            body = ()
        case Error(code, description):
            text_at = start + ERROR.size
            body = (
                Part("code", body_at, 1, _code(code)),
                _unused(data, body_at + 1),
                Part("description length", text_at - 2, 2, str(end - text_at)),
                Part("description", text_at, end - text_at, description),
            )
        case Request(request_id, text) | Response(request_id, text):
            text_at = start + EXCHANGE.size
            body = (
                Part("id", body_at, text_at - body_at, str(request_id)),
                Part("data", text_at, end - text_at, _application_data(message, text)),
            )
        case _:
            assert_never(message)
    return Part(name, at, end - at, "", head + body)


def _unused(data: bytes, at: int) -> Part:
    return Part("unused", at, 3, data[at : at + 3].hex())


def _code(code: int) -> str:
    try:
        return f"{code} ({ErrorCode(code).name.lower().replace('_', ' ')})"
    except ValueError:
        return f"{code} (not defined)"


def _application_data(message: Request | Response, text: bytes) -> str:
    shown = text.decode(errors="backslashreplace")
    try:
        if isinstance(message, Request):
            decode_operation_untrusted(text)
        else:
            decode_outcome_untrusted(text)
    except BadMessage as bad:
        return f"{shown} [invalid: {bad}]"
    return shown
