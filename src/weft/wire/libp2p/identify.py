"""The identify protocol: who a peer is, where it listens, what it speaks. Sent once, with a length prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.limits import IDENTIFY_BYTES_MAX
from weft.wire.libp2p import keys, multiaddr, protobuf
from weft.wire.libp2p.errors import BadFrame
from weft.wire.libp2p.keys import PUBLIC_KEY_BYTES_MAX, PublicKey
from weft.wire.libp2p.multiaddr import Multiaddr
from weft.wire.libp2p.multistream import MULTISTREAM_LINE_BYTES_MAX

IDENTIFY_ITEMS_MAX: Final = 256  # addresses, and protocols
PROTOCOL = "/ipfs/id/1.0.0"
PUSH_PROTOCOL = "/ipfs/id/push/1.0.0"  # the same message, sent unasked when something has changed
VERSION_BYTES_MAX = 256

# message Identify { publicKey = 1; listenAddrs = 2*; protocols = 3*; observedAddr = 4; protocolVersion = 5;
#                    agentVersion = 6 }
PUBLIC_KEY, LISTEN_ADDRS, PROTOCOLS, OBSERVED_ADDR, PROTOCOL_VERSION, AGENT_VERSION = range(1, 7)


@dataclass(frozen=True, slots=True)
class Identify:
    """A push may leave out what has not changed; an answer to the reference needs the key and real addresses."""

    public_key: PublicKey | None
    listen_addrs: tuple[Multiaddr, ...]
    protocols: tuple[str, ...]
    observed_addr: Multiaddr | None
    protocol_version: str
    agent_version: str

    def encode(self) -> bytes:
        return protobuf.encode(
            [
                (PUBLIC_KEY, self.public_key.serialised if self.public_key else None),
                *((LISTEN_ADDRS, address.encode()) for address in self.listen_addrs),
                *((PROTOCOLS, protocol) for protocol in self.protocols),
                (OBSERVED_ADDR, self.observed_addr.encode() if self.observed_addr else None),
                (PROTOCOL_VERSION, self.protocol_version),
                (AGENT_VERSION, self.agent_version),
            ]
        )


def decode_untrusted(body: bytes) -> Identify:
    """The message in ``body``; raise only BadFrame. Addresses of kinds we do not know are left out."""
    if len(body) > IDENTIFY_BYTES_MAX:
        raise BadFrame("identify message is too long", have=len(body), limit=IDENTIFY_BYTES_MAX)
    message = protobuf.read_untrusted("identify", body, range(PUBLIC_KEY, AGENT_VERSION + 1))
    key = message.blob(PUBLIC_KEY, PUBLIC_KEY_BYTES_MAX)
    addresses = message.blobs(LISTEN_ADDRS, IDENTIFY_ITEMS_MAX, IDENTIFY_BYTES_MAX)
    observed = message.blob(OBSERVED_ADDR, IDENTIFY_BYTES_MAX)
    return Identify(
        public_key=keys.decode_untrusted(key) if key is not None else None,
        listen_addrs=tuple(known for address in addresses if (known := _readable(address)) is not None),
        protocols=tuple(message.texts(PROTOCOLS, IDENTIFY_ITEMS_MAX, MULTISTREAM_LINE_BYTES_MAX)),
        observed_addr=_readable(observed) if observed is not None else None,
        protocol_version=message.text(PROTOCOL_VERSION, VERSION_BYTES_MAX) or "",
        agent_version=message.text(AGENT_VERSION, VERSION_BYTES_MAX) or "",
    )


def _readable(address: bytes) -> Multiaddr | None:
    try:
        return multiaddr.decode_untrusted(address)
    except BadFrame:
        return None
