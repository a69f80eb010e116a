"""Floodsub's messages on the wire: an RPC carries changes of subscriptions and signed messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.errors import UsageError
from weft.limits import FLOODSUB_RPC_BYTES_MAX, FLOODSUB_TOPIC_BYTES_MAX
from weft.wire.libp2p import peer_id, protobuf
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.keys import PUBLIC_KEY_BYTES_MAX, SIGNATURE_BYTES_MAX
from weft.wire.libp2p.peer_id import PeerId

FLOODSUB_RPC_MESSAGES_MAX: Final = 64  # signatures checked in one call; the reference sends one message per RPC
FLOODSUB_RPC_SUBSCRIPTIONS_MAX: Final = 4096  # a peer tells all of its topics in one RPC when it connects
FLOODSUB_MESSAGE_TOPICS_MAX: Final = 16  # the reference sends one
FLOODSUB_SEQNO_BYTES_MAX: Final = 32  # the reference sends 8 random bytes
PROTOCOL = "/floodsub/1.0.0"

# message RPC { subscriptions = 1*; msgs = 2* }
SUBSCRIPTIONS, MESSAGES = range(1, 3)
# message SubOpts { subscribe = 1; topicID = 2 }
SUBSCRIBE, TOPIC = range(1, 3)
# message Message { from = 1; data = 2; seqno = 3; topicIDs = 4*; signature = 5; key = 6 }
FROM, DATA, SEQNO, TOPICS, SIGNATURE, KEY = range(1, 7)

PEER_ID_BYTES_MAX = 64  # 44 in fact; peer_id looks closer


@dataclass(frozen=True, slots=True)
class Subscription:
    """A peer starts (or stops) to want a topic."""

    topic: str
    wanted: bool


@dataclass(frozen=True, slots=True)
class Message:
    """One publication. ``signature`` and ``key`` are None where the wire had none."""

    origin: PeerId
    data: bytes
    seqno: bytes
    topics: tuple[str, ...]
    signature: bytes | None
    key: bytes | None

    @property
    def id(self) -> bytes:
        """The id of the message, the same wherever it comes from; unambiguous: a peer id contains its length."""
        return self.origin.multihash + self.seqno

    def signed_part(self) -> bytes:
        """The fields that the signature covers, as every implementation writes them."""
        return protobuf.encode(
            [
                (FROM, self.origin.multihash),
                (DATA, self.data),
                (SEQNO, self.seqno),
                *((TOPICS, topic) for topic in self.topics),
            ]
        )

    def encode(self) -> bytes:
        return self.signed_part() + protobuf.encode([(SIGNATURE, self.signature), (KEY, self.key)])


@dataclass(frozen=True, slots=True)
class Rpc:
    subscriptions: tuple[Subscription, ...] = ()
    messages: tuple[Message, ...] = ()

    def encode(self) -> bytes:
        """Without the length that precedes it on a stream."""
        return protobuf.encode(
            [
                *((SUBSCRIPTIONS, _encode_subscription(subscription)) for subscription in self.subscriptions),
                *((MESSAGES, message.encode()) for message in self.messages),
            ]
        )


def check_topic(topic: str) -> None:
    """Raise UsageError for a topic that no peer would take from us."""
    try:
        size = len(topic.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"topic cannot be written as UTF-8: {error.reason}", at=error.start) from None
    if not 0 < size <= FLOODSUB_TOPIC_BYTES_MAX:
        raise UsageError("topic has an impossible size", have=size, limit=FLOODSUB_TOPIC_BYTES_MAX)


def _encode_subscription(subscription: Subscription) -> bytes:
    return protobuf.encode([(SUBSCRIBE, subscription.wanted), (TOPIC, subscription.topic)])


def decode_untrusted(body: bytes) -> Rpc:
    """The RPC in ``body``; raise only BadFrame. Signatures are not checked here."""
    if len(body) > FLOODSUB_RPC_BYTES_MAX:
        raise BadFrame("RPC is too long", have=len(body), limit=FLOODSUB_RPC_BYTES_MAX)
    rpc = protobuf.read_untrusted("RPC", body, (SUBSCRIPTIONS, MESSAGES))
    subscriptions = rpc.blobs(SUBSCRIPTIONS, FLOODSUB_RPC_SUBSCRIPTIONS_MAX, FLOODSUB_RPC_BYTES_MAX)
    messages = rpc.blobs(MESSAGES, FLOODSUB_RPC_MESSAGES_MAX, FLOODSUB_RPC_BYTES_MAX)
    return Rpc(
        tuple(_subscription_untrusted(subscription) for subscription in subscriptions),
        tuple(_message_untrusted(message) for message in messages),
    )


def _subscription_untrusted(body: bytes) -> Subscription:
    fields = protobuf.read_untrusted("subscription", body, (SUBSCRIBE, TOPIC))
    topic = fields.required_text(TOPIC, FLOODSUB_TOPIC_BYTES_MAX)
    if not topic:
        raise BadFrame("subscription to no topic")
    return Subscription(topic, wanted=bool(fields.uint(SUBSCRIBE)))


def _message_untrusted(body: bytes) -> Message:
    fields = protobuf.read_untrusted("message", body, range(FROM, KEY + 1))
    message = Message(
        origin=peer_id.from_bytes_untrusted(fields.required_blob(FROM, PEER_ID_BYTES_MAX)),
        # Absent and empty data are signed differently; every publisher we know of writes the field.
        data=fields.required_blob(DATA, FLOODSUB_RPC_BYTES_MAX),
        seqno=fields.required_blob(SEQNO, FLOODSUB_SEQNO_BYTES_MAX),
        topics=tuple(fields.texts(TOPICS, FLOODSUB_MESSAGE_TOPICS_MAX, FLOODSUB_TOPIC_BYTES_MAX)),
        signature=fields.blob(SIGNATURE, SIGNATURE_BYTES_MAX),
        key=fields.blob(KEY, PUBLIC_KEY_BYTES_MAX),
    )
    if not message.seqno:
        raise BadFrame("message without a sequence number", origin=message.origin)
    if not message.topics or "" in message.topics:
        raise BadFrame("message without a topic", origin=message.origin)
    return message
