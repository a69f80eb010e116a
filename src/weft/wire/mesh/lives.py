"""Lives of nodes in handshakes: how two nodes that run with one id find out about each other (SEC-07).

A life is one run of a node, from its start to its end. Only a process that runs can say hello, so a life that says
hello after a later one did is not an earlier life of the same node: it is its twin. A node in the middle sees that, and
lets the two know of each other. Since it may lie, its word alone stops nobody: each twin signs, with the key of the id
that they share, that it has heard of the other's life. No other node can sign that, and nobody can before that life
began.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from weft.limits import OFFSET_MAX
from weft.wire.mesh.checks import BadMeshMessage, Signature, read_signature_untrusted
from weft.wire.mesh.peerlink_pb2 import HeardLife, NodeLife

RUN_BYTES: Final = 16  # random: no two lives have the same
PURPOSE: Final = b"weft: a life that heard of another\0"

# mesh and node id, each with its length:u16; started_ms:u64 run:16 heard:16
NUMBERS: Final = struct.Struct("!Q16s16s")


class Life(NamedTuple):
    """``started_ms`` is Unix time. Of two lives, the lower one is the elder."""

    started_ms: int
    run: bytes


class Heard(NamedTuple):
    """A node signs that it has heard of this run of its own id."""

    run: bytes
    signature: Signature

    def to_message(self) -> HeardLife:
        return HeardLife(run=self.run, signature=self.signature.signature, chain=self.signature.chain_pem)


class OtherLife(NamedTuple):
    """Told to a node: somebody else has said hello with its id lately."""

    life: Life
    heard: Heard | None  # and signs that it has heard of that node

    def to_message(self) -> NodeLife:
        return NodeLife(
            started_ms=self.life.started_ms,
            run=self.life.run,
            heard=None if self.heard is None else self.heard.to_message(),
        )


def statement(mesh: str, node_id: str, life: Life, heard_run: bytes) -> bytes:
    """What is signed: that this life of this node has heard of that run."""
    names = b"".join(struct.pack("!H", len(name)) + name for name in (mesh.encode(), node_id.encode()))
    return PURPOSE + names + NUMBERS.pack(life.started_ms, life.run, heard_run)


def read_life_untrusted(started_ms: int, run: bytes) -> Life | None:
    """None: a peer that tells nothing of its life."""
    if not run:
        return None
    _check_run(run)
    if started_ms > OFFSET_MAX:
        raise BadMeshMessage("the start of a life is out of range", value=started_ms, limit=OFFSET_MAX)
    return Life(started_ms, run)


def read_heard_untrusted(message: HeardLife) -> Heard:
    _check_run(message.run)
    return Heard(message.run, read_signature_untrusted(message.signature, message.chain))


def read_other_untrusted(message: NodeLife) -> OtherLife | None:
    life = read_life_untrusted(message.started_ms, message.run)
    if life is None:
        return None
    return OtherLife(life, read_heard_untrusted(message.heard) if message.HasField("heard") else None)


def _check_run(run: bytes) -> None:
    if len(run) != RUN_BYTES:
        raise BadMeshMessage("the run of a life has another length", size=len(run), want=RUN_BYTES)
