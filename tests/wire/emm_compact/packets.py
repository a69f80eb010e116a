"""Bytes for the tests of this folder: the vectors, and packets assembled from hexadecimal or by hypothesis."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "emm_compact" / "emm_compact.json").read_text()
)
DATAGRAMS = {vector["name"]: bytes.fromhex(vector["hex"]) for vector in VECTORS["vectors"]}

NODE = "a910" + VECTORS["node_id"]
SIGNATURES = {"20": "fe20" + "00" * 32, "21": "fe40" + "00" * 64, "22": "fe10" + "00" * 16, "23": "fe40" + "00" * 64}

# The required fields of each type, as hexadecimal; uptime 1 s, empty digest, nothing sent, no hops.
COMMAND = ["b70173", "b800"]
HEARTBEAT = [NODE, "b30400000001", "b410" + "00" * 16, "b506000000000000", "b606000000000000"]
JOIN = [NODE, "b0010f", "b1010a", "b2011e", "b900"]
REQUIRED = {"21": COMMAND, "22": HEARTBEAT, "23": JOIN}


def assemble(first: str, *body: str) -> bytes:
    """A packet with that first byte and a blank signature; its payload length is right."""
    payload = bytes.fromhex(SIGNATURES[first] + "".join(body))
    return bytes.fromhex(first + "000100020003") + bytes((len(payload),)) + payload


def field(field_type: int, value: bytes) -> str:
    return f"{field_type:02x}{len(value):02x}{value.hex()}"


# --- packets at random -------------------------------------------------------------------------------------------
#
# Made by plain functions of a Random that hypothesis seeds: ten times faster than as many strategies.

_LETTERS = "aZ 09-_äß°€語😀\u00a0"
_UNKNOWN = [code for code in range(256) if not 0xA1 <= code <= 0xB9 and code != 0xFE]
_DECISIVE = (0, 7, 8, 9, 26, 42, 43, 44, 74)  # where a packet, its payload and its body begin


def datagrams() -> st.SearchStrategy[bytes]:
    """Any valid packet, assembled without our encoder: fields in any order, unknown ones among them."""
    return st.randoms(use_true_random=True).map(_datagram)


def mutated() -> st.SearchStrategy[bytes]:
    """A valid packet with a few bytes changed, cut or added, its payload length often made right again."""
    return st.randoms(use_true_random=True).map(_mutated)


def _text(random: Random, size_min: int = 0) -> bytes:
    return "".join(random.choices(_LETTERS, k=random.randint(size_min, 12))).encode()


def _number(field_type: int, low: int, high: int, random: Random) -> str:
    return field(field_type, bytes((random.randint(low, high),)))


def _blob(field_type: int, sizes: tuple[int, ...], random: Random) -> str:
    return field(field_type, random.randbytes(random.choice(sizes)))


def _topology(random: Random) -> str:
    subs = [
        field(1, random.randbytes(16 * random.randint(0, 2))),
        _number(2, 0, 255, random),
        field(3, _text(random)),
        field(0x44, random.randbytes(3)),
        field(0x44, b""),
    ]
    return field(0xAD, bytes.fromhex("".join(random.sample(subs, random.randint(0, 5)))))


def _optional(random: Random) -> list[str]:
    fields = [
        _number(0xA1, 1, 6, random),
        _blob(0xA2, (1, 4), random),
        _blob(0xA3, (1, 8), random),
        _blob(0xA4, (1, 16), random),
        _number(0xA5, 1, 5, random),
        _number(0xA6, 0, 31, random),
        _number(0xA7, 1, 7, random),
        _blob(0xA8, (4,), random),
        _blob(0xAA, (2,), random),
        _blob(0xAB, (8,), random),
        _number(0xAC, 0, 255, random),
        _blob(0xAE, (16,), random),
        _blob(0xAF, (16,), random),
        _topology(random),
        *(field(random.choice(_UNKNOWN), random.randbytes(random.randint(0, 5))) for _ in range(3)),
    ]
    return random.sample(fields, random.randint(0, 4))


def _required(code: int, random: Random) -> list[str]:
    if code == 1:
        return [field(0xB7, _text(random, size_min=1)), _blob(0xB8, tuple(range(10)), random)]
    if code == 2:
        return [
            _blob(0xA9, (16,), random),
            _blob(0xB3, (4,), random),
            _blob(0xB4, (16,), random),
            f"b506{random.randbytes(2).hex()}00000000",
            f"b606{random.getrandbits(10) << 6:04x}{random.randbytes(4).hex()}",
        ]
    return [
        _blob(0xA9, (16,), random),
        _number(0xB0, 0, 15, random),
        _number(0xB1, 0, 63, random),
        _number(0xB2, 0, 255, random),
        _blob(0xB9, tuple(range(10)), random),
    ]


def _notification(random: Random) -> bytes:
    message_format = random.randint(0x21, 0x2A)
    if message_format == 0x21:
        message = _text(random)
    elif message_format == 0x22:
        message = random.choice([b"1", b" {} ", b'{"\xc2\xb0C": [-1.5e3, null, "\\n"]}', b"[[[[]]]]", b"true\n"])
    else:
        message = random.randbytes(random.choice((0, 1, 30, 219)))
    return bytes((random.randint(0x11, 0x17), message_format)) + message


def _datagram(random: Random) -> bytes:
    code, size_max = random.randint(0, 3), 255 - 66
    body = _notification(random) if code == 0 else b""
    if code:
        parts = _required(code, random)
        for extra in _optional(random):
            if sum(map(len, [*parts, extra])) // 2 <= size_max:
                parts.append(extra)
        random.shuffle(parts)
        body = bytes.fromhex("".join(parts))
    size = (32, 64, 16, 64)[code]
    payload = bytes((0xFE, size)) + random.randbytes(size) + body
    first = 0x20 | random.getrandbits(1) << 3 | code
    return bytes((first,)) + random.randbytes(6) + bytes((len(payload),)) + payload


def _mutated(random: Random) -> bytes:
    data = bytearray(_datagram(random))
    for _ in range(random.randint(0, 3)):
        at = min(random.choice((random.randint(0, len(data)), random.choice(_DECISIVE))), len(data))
        match random.choice(("set", "set", "cut", "add")):
            case "set":
                data[at : at + 1] = random.choice((random.randbytes(1), b"\x00", b"\xff", b"\xfe"))
            case "cut":
                del data[at:]
            case _:
                data[at:at] = random.randbytes(random.randint(1, 5))
    if random.random() < 0.7 and 8 <= len(data) <= 263:
        data[7] = len(data) - 8
    return bytes(data)
