"""Floodsub 1.0: publish and subscribe by telling every neighbour that wants a topic."""

from weft.wire.libp2p.floodsub.router import Deliver, Dropped, Effect, Router, Seen, Send, Subscribed
from weft.wire.libp2p.floodsub.rpc import PROTOCOL, Message, Rpc, Subscription, decode_untrusted
from weft.wire.libp2p.floodsub.signing import Distrust, distrust, sign

__all__ = [
    "PROTOCOL",
    "Deliver",
    "Distrust",
    "Dropped",
    "Effect",
    "Message",
    "Router",
    "Rpc",
    "Seen",
    "Send",
    "Subscribed",
    "Subscription",
    "decode_untrusted",
    "distrust",
    "sign",
]
