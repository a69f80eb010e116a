"""Coaty's events and liveliness frames as the reference sends them (see ``capture.py``)."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ed25519

from tests.interop.coaty.js_agent import JsAgent, peer_id_file
from tests.interop.coaty.wire_peer import LIVELINESS, WireListener, WirePeer, fixed_entropy
from weft.wire.libp2p.private_keys import PrivateKey

NAMESPACE = "weft"
SOURCE = "c0a7e57e-0000-4000-8000-000000000001"  # our agent
PLAIN = {
    "objectId": "0b1ec700-0000-4000-8000-000000000001",
    "coreType": "CoatyObject",
    "objectType": "coaty.CoatyObject",
    "name": "plain",
}
SENSOR = {
    "objectId": "0b1ec700-0000-4000-8000-000000000002",
    "coreType": "CoatyObject",
    "objectType": "com.example.Sensor",
    "name": "Fühler 温度",
    "externalId": "sensor-7",
    "celsius": 21.5,
}


def identity(number: int) -> PrivateKey:
    return PrivateKey(ed25519.Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


def topic(event: str, correlation: str | None = None) -> str:
    return f"coaty/1/{NAMESPACE}/{event}" + (f"/{correlation}" if correlation else "")


def correlation_id(number: int) -> str:
    return f"c0441000-0000-4000-8000-{number:012}"


class CoatyCapture:
    """Coaty's events as the reference publishes them."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.events: list[dict[str, str]] = []
        self.liveliness: list[dict[str, str]] = []

    def keep(self, peer: WirePeer, event: str, name: str, wanted: int = 1) -> None:
        """Wait until ``wanted`` messages have come on topic ``name``, and keep that many as ``event``."""
        peer.wait(lambda: len(peer.messages(name)) >= wanted)
        for message in peer.messages(name)[:wanted]:
            self.events.append({"origin": self.origin, "event": event, "topic": name, "payload": message.data.hex()})

    def keep_liveliness(self, peer: WirePeer, operation: str, at: int, frames: list[bytes]) -> None:
        peer.wait(lambda: len(frames) > at)
        self.liveliness.append(
            {"origin": self.origin, "operation": operation, "protocol": LIVELINESS, "payload": frames[at].hex()}
        )

    # --- the reference publishes ---------------------------------------------------------------------------------

    def one_way(self, js: JsAgent, peer: WirePeer) -> None:
        for name in ("ADVCoatyObject", "ADV:com.example.Sensor", "DAD", "CHNline1", "CHNline2"):
            peer.subscribe(topic(name))
        for name in ("plant/raw", "plant/bytes"):
            peer.subscribe(name)
        js.wait("subs", id=str(peer.identity.peer), subs=[[True, "plant/bytes"]])
        js.command("advertise", object=PLAIN)
        js.command("advertise", object=SENSOR, privateData={"calibrated": True})
        js.command("deadvertise", objectIds=[PLAIN["objectId"], SENSOR["objectId"]])
        js.command("channel", id="line1", object=SENSOR)
        js.command("channel", id="line2", objects=[PLAIN, SENSOR], privateData={"batch": 7})
        js.command("raw", topic="plant/raw", text="21.5 °C")
        js.command("raw", topic="plant/bytes", hex="00ff10")
        self.keep(peer, "Advertise", topic("ADVCoatyObject"), 2)
        self.keep(peer, "Advertise", topic("ADV:com.example.Sensor"))
        self.keep(peer, "Deadvertise", topic("DAD"))
        self.keep(peer, "Channel", topic("CHNline1"))
        self.keep(peer, "Channel", topic("CHNline2"))
        self.keep(peer, "Raw", "plant/raw")
        self.keep(peer, "Raw", "plant/bytes")

    def requests(self, js: JsAgent, peer: WirePeer) -> None:
        """What the reference asks."""
        for name in ("DSC", "QRY", "UPDCoatyObject", "UPD:com.example.Sensor", "CLLswitch"):
            peer.subscribe(topic(name))
        js.wait("subs", id=str(peer.identity.peer), subs=[[True, topic("CLLswitch")]])
        js.command("discover", objectId=SENSOR["objectId"])
        js.command("discover", externalId="sensor-7", objectTypes=["com.example.Sensor"])
        js.command("discover", coreTypes=["CoatyObject", "Task"])
        js.command("query", objectTypes=["com.example.Sensor"], filter={})
        # celsius between 20 and 30, at most 5, best first
        conditions = {"and": [["celsius", [4, 20, 30]], ["name", [6, "F%"]]]}
        js.command(
            "query",
            coreTypes=["CoatyObject"],
            filter={"conditions": conditions, "take": 5, "orderByProperties": [["celsius", "Desc"]]},
        )
        js.command("update", object=SENSOR)
        js.command("call", operation="switch", parameters={"on": True, "room": "2.17"})
        js.command(
            "call", operation="switch", parameters=[1, "two", None], filter={"conditions": ["name", [7, "lamp"]]}
        )
        self.keep(peer, "Discover", topic("DSC"), 3)
        self.keep(peer, "Query", topic("QRY"), 2)
        self.keep(peer, "Update", topic("UPDCoatyObject"))
        self.keep(peer, "Update", topic("UPD:com.example.Sensor"))
        self.keep(peer, "Call", topic("CLLswitch"), 2)

    def responses(self, js: JsAgent, peer: WirePeer) -> None:
        """What the reference answers us."""
        js.command("observe", what="Discover", object=SENSOR, relatedObjects=[PLAIN])
        js.command("observe", what="Query", objects=[PLAIN, SENSOR])
        js.command("observe", what="Update", coreType="CoatyObject")
        js.command("observe", what="Call", operation="echo")
        js.command("observe", what="Call", operation="fail", error={"code": 1000, "message": "no such lamp"})
        peer.wait(lambda: bool(peer.router.peers_of(topic("CLLfail"))))
        asked: list[tuple[str, str, dict[str, Any]]] = [
            ("DSC", "RSV", {"objectTypes": ["com.example.Sensor"]}),
            ("QRY", "RTV", {"coreTypes": ["CoatyObject"], "objectFilter": {}}),
            ("UPDCoatyObject", "CPL", {"object": SENSOR}),
            ("CLLecho", "RTN", {"parameters": {"n": 1}}),
            ("CLLfail", "RTN", {}),
        ]
        kinds = {"RSV": "Resolve", "RTV": "Retrieve", "CPL": "Complete", "RTN": "Return"}
        for number, (request, response, data) in enumerate(asked):
            correlation = correlation_id(number)
            peer.subscribe(topic(response, correlation))
            js.wait("subs", id=str(peer.identity.peer), subs=[[True, topic(response, correlation)]])
            payload = {"sourceId": SOURCE, "correlationId": correlation, "data": data}
            peer.publish(topic(request), json.dumps(payload).encode())
            self.keep(peer, kinds[response], topic(response, correlation))

    def io_events(self) -> None:
        """The reference's IO router associates a source with an actor, and the source speaks."""
        us = identity(3)
        keys = [str(peer_id_file(key_type)) for key_type in ("Ed25519", "secp256k1")]
        with (
            closing(WireListener(us, fixed_entropy("io"))) as listener,
            JsAgent(NAMESPACE, str(listener.address), *keys, script="io_agent.js") as js,
            closing(listener.accept()) as peer,
        ):
            peer.join_floodsub()
            for name in ("ADVIoNode", "ASCplant", "IOV"):
                peer.subscribe(topic(name))
            self.keep(peer, "IoValue", topic("IOV"))
            js.wait("IoValue")
            self.keep(peer, "Advertise", topic("ADVIoNode"))
            self.keep(peer, "Associate", topic("ASCplant"))

    # --- liveliness ----------------------------------------------------------------------------------------------

    def liveliness_operations(self) -> None:
        us, mortal = identity(4), identity(5)
        with (
            closing(WireListener(us, fixed_entropy("liveliness"))) as listener,
            JsAgent.start("secp256k1", "--ns", NAMESPACE, "--bootstrap", str(listener.address)) as js,
        ):
            with closing(listener.accept()) as peer:
                peer.wait(lambda: bool(peer.inbound(LIVELINESS)))
                self.keep_liveliness(peer, "AnnounceLastWill", 0, peer.inbound(LIVELINESS)[0].messages)
                ping = peer.open(LIVELINESS)
                peer.send(ping, b'{"op":2}')
                self.keep_liveliness(peer, "PingAliveAck", 0, peer.streams[ping].messages)
                js.wait("protocols", id=str(us.peer))
                self.dead_peer(js, peer, mortal)
            # The reference finds the connection gone and dials back to see whether we live.
            with closing(listener.accept()) as peer:
                peer.wait(lambda: any(b'"op":2' in s.messages[0] for s in peer.inbound(LIVELINESS) if s.messages))
                frames = [s.messages[0] for s in peer.inbound(LIVELINESS) if s.messages]
                self.keep_liveliness(peer, "PingAlive", 0, [frame for frame in frames if b'"op":2' in frame])

    def dead_peer(self, js: JsAgent, witness: WirePeer, mortal: PrivateKey) -> None:
        """A second peer of ours announces its last will and dies; the reference tells the first one."""
        known = len(witness.inbound(LIVELINESS))
        with closing(WirePeer.dial(js.address, mortal, fixed_entropy("mortal"))) as peer:
            will = {"op": 0, "lastWills": [[str(mortal.peer), SOURCE]], "propagatedPeerIds": [str(mortal.peer)]}
            stream = peer.open(LIVELINESS)
            peer.send(stream, json.dumps(will, separators=(",", ":")).encode())
            peer.wait(lambda: bool(peer.streams) and any(s.protocol == "/ipfs/id/1.0.0" for s in peer.streams.values()))
            witness.wait(lambda: len(witness.inbound(LIVELINESS)) > known)
            self.keep_liveliness(witness, "AnnounceLastWill", 0, witness.inbound(LIVELINESS)[known].messages)
            js.wait("protocols", id=str(mortal.peer))
        witness.wait(lambda: len(witness.inbound(LIVELINESS)) > known + 1)
        self.keep_liveliness(witness, "AnnounceDead", 0, witness.inbound(LIVELINESS)[known + 1].messages)

    def run(self) -> None:
        us = identity(2)
        with (
            JsAgent.start("RSA", "--ns", NAMESPACE) as js,
            closing(WirePeer.dial(js.address, us, fixed_entropy("coaty"))) as peer,
        ):
            peer.join_floodsub()
            peer.subscribe(topic("ADVIdentity"))
            self.keep(peer, "Advertise", topic("ADVIdentity"))
            self.one_way(js, peer)
            self.requests(js, peer)
            self.responses(js, peer)
        self.io_events()
        self.liveliness_operations()
