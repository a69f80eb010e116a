"""What a link carries about API keys, to and from messages of ``peerlink.proto``. The reader raises only
BadMeshMessage.

Signatures are not checked here, because that takes time: it is done outside the event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from weft.security.key_exchange import KeyTalk
from weft.security.key_statements import (
    SIGNATURE_BYTES_MAX,
    STATEMENT_BYTES_MAX,
    STATEMENT_CHAIN_BYTES_MAX,
    SignedText,
)
from weft.security.mesh_keys import BUCKETS, DIGEST_BYTES
from weft.wire.mesh import peerlink_pb2 as pb
from weft.wire.mesh.checks import BadMeshMessage

STATEMENTS_MAX: Final = 256  # in one message; our own messages have up to 64


def key_message(talk: KeyTalk) -> pb.PeerMessage:
    chains = list(dict.fromkeys(each.chain for each in talk.statements))
    places = {chain: place for place, chain in enumerate(chains)}
    return pb.PeerMessage(
        keys=pb.PeerKeys(
            summary=talk.summary,
            buckets=b"".join(talk.buckets),
            statements=[
                pb.KeyStatement(text=each.body, signature=each.signature, chain=places[each.chain])
                for each in talk.statements
            ],
            chains=chains,
            asked=bytes(talk.asked),
            took=talk.took,
        )
    )


def read_key_talk_untrusted(message: pb.PeerKeys) -> KeyTalk:
    _check("digest of all keys", len(message.summary), (0, DIGEST_BYTES))
    _check("list of digests of keys", len(message.buckets), (0, BUCKETS * DIGEST_BYTES))
    for what, count, limit in (
        ("statements on keys", len(message.statements), STATEMENTS_MAX),
        ("certificates of signers", len(message.chains), STATEMENTS_MAX),
        ("buckets that are asked for", len(message.asked), BUCKETS),
    ):
        if count > limit:
            raise BadMeshMessage(f"too many {what}", have=count, limit=limit)
    for chain in message.chains:
        _check_size("certificates of a signer", len(chain), STATEMENT_CHAIN_BYTES_MAX)
    return KeyTalk(
        message.summary,
        tuple(message.buckets[at : at + DIGEST_BYTES] for at in range(0, len(message.buckets), DIGEST_BYTES)),
        tuple(_read_statement_untrusted(each, message.chains) for each in message.statements),
        tuple(dict.fromkeys(message.asked)),
        message.took,
    )


def _read_statement_untrusted(each: pb.KeyStatement, chains: Sequence[bytes]) -> SignedText:
    _check_size("a statement on a key", len(each.text), STATEMENT_BYTES_MAX)
    _check_size("a signature", len(each.signature), SIGNATURE_BYTES_MAX)
    if each.chain >= len(chains):
        raise BadMeshMessage("a statement without the certificates of its signer", chain=each.chain, have=len(chains))
    return SignedText(each.text, each.signature, chains[each.chain])


def _check(what: str, size: int, allowed: tuple[int, int]) -> None:
    if size not in allowed:
        raise BadMeshMessage(f"the {what} has a wrong size", size=size, right=allowed[1])


def _check_size(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise BadMeshMessage(f"{what} is too large", size=size, limit=limit)
