"""Whole connections and single messages as the reference sends them (see ``capture.py``)."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from tests.interop.coaty.js_agent import KEY_TYPES, OUR_KEY_TYPES, JsAgent, own_identity, reference
from tests.interop.coaty.wire_peer import LIVELINESS, WireListener, WirePeer, fixed_entropy
from weft.wire.libp2p import mplex, multistream

Case = dict[str, Any]

TOPIC = "weft/capture"


class Libp2pCapture:
    def __init__(self) -> None:
        self.cases: dict[str, list[Case]] = {"connections": [], "mplex": [], "identify": [], "floodsub": []}

    def run(self) -> None:
        for key_type in KEY_TYPES:
            self._dialled(key_type)
            self._accepted(key_type)

    def _dialled(self, key_type: str) -> None:
        ours, seed = OUR_KEY_TYPES[key_type], f"{key_type} dialled"
        with (
            JsAgent.start(key_type) as js,
            closing(WirePeer.dial(js.address, own_identity(ours), fixed_entropy(seed))) as peer,
        ):
            self._explained("identify", key_type, [peer.ask_identity()])
            self._publication(js, peer)
            self._explained("floodsub", key_type, peer.rpcs, kind="rpc")
            self._connection(key_type, ours, seed, "dialler", peer)

    def _accepted(self, key_type: str) -> None:
        ours, seed = OUR_KEY_TYPES[key_type], f"{key_type} accepted"
        with (
            closing(WireListener(own_identity(ours), fixed_entropy(seed))) as listener,
            JsAgent.start(key_type, "--bootstrap", str(listener.address)) as js,
            closing(listener.accept()) as peer,
        ):
            peer.wait(lambda: any(stream.messages for stream in peer.inbound(LIVELINESS)))
            self._publication(js, peer)
            self._connection(key_type, ours, seed, "listener", peer)

    def _publication(self, js: JsAgent, peer: WirePeer) -> None:
        """The reference subscribes, publishes, and unsubscribes."""
        peer.join_floodsub()
        peer.subscribe(TOPIC)
        js.command("observe", what="Raw", topic="weft/other")
        js.command("raw", topic=TOPIC, text="Größe")
        peer.wait(lambda: bool(peer.messages(TOPIC)))
        js.command("unobserve", what="Raw", topic="weft/other")
        peer.wait(lambda: not peer.router.peers_of("weft/other"))

    def _connection(self, key_type: str, ours: str, seed: str, role: str, peer: WirePeer) -> None:
        record = peer.record
        plaintext = b"".join(record.plaintexts)
        self.cases["connections"].append(
            {
                "key_type": key_type,
                "our_key_type": ours,
                "our_role": role,
                "remote": str(peer.remote.peer),
                "entropy": [piece.hex() for piece in record.entropy[:2]],
                "suite": [peer.suite.exchange, peer.suite.cipher, peer.suite.hash],
                "received": record.received.hex(),
                "sent_before_mplex": record.sent_before_mplex.hex(),
                "plaintext": plaintext.hex(),
            }
        )
        lines = multistream.encode_line(multistream.HEADER) + multistream.encode_line(mplex.PROTOCOL)
        assert plaintext.startswith(lines), "what precedes MPLEX on the encrypted connection"
        self._explained("mplex", key_type, [plaintext.removeprefix(lines)])

    def _explained(self, name: str, key_type: str, messages: list[bytes], kind: str | None = None) -> None:
        asked = [{"kind": kind or name, "hex": message.hex()} for message in messages]
        for item, meaning in zip(asked, reference("explain", asked), strict=True):
            self.cases[name].append({"key_type": key_type, "bytes": item["hex"], "meaning": meaning})
