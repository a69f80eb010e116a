"""A node of the Event Mesh Protocol with the 17-byte header, as a library.

    from weft import emm

    trust = emm.TrustStore()
    trust.add_hmac_key(their_id, b"\\0\\0\\0\\1", their_secret)
    mine = emm.Credentials(auth_key_id=b"\\0\\0\\0\\1", hmac_key=my_secret)

    async with emm.Node(my_id, mine, trust, listen=("0.0.0.0", 4700), join=[("10.0.0.7", 4700)]) as node:
        await node.publish("plant.temp", 21.5)
        async for event in node.events():
            print(event.name, event.values, event.node_id, event.verdict)

Nodes find each other with Hello and keep in touch with Heartbeat; an event goes to all neighbours, and further if the
rules of those say so (``Forward``). Every packet is authenticated, fresh and new before anything is done with it.

- ``neighbours``  who is known: Hello, Heartbeat, silence
- ``session``     the node without sockets and clock: datagrams and time in, datagrams and events out
- ``node``        asyncio, UDP and QUIC around it
- ``settings``, ``event``, ``errors``  what can be set, seen and go wrong

``docs/emm.md`` tells it for users; requirements EMM-27 to EMM-29.
"""

from weft.datagram_node import Change, ChangeKind
from weft.emm.event import Event, Figures, Refusal
from weft.emm.neighbours import Neighbour
from weft.emm.node import NoAnswer, Node
from weft.emm.settings import Forward, Settings
from weft.wire.emm import Algorithm, Credentials, Profile, Rules, SealRule, SigningKey, TrustPolicy, TrustStore, Verdict

__all__ = [
    "Algorithm",
    "Change",
    "ChangeKind",
    "Credentials",
    "Event",
    "Figures",
    "Forward",
    "Neighbour",
    "NoAnswer",
    "Node",
    "Profile",
    "Refusal",
    "Rules",
    "SealRule",
    "Settings",
    "SigningKey",
    "TrustPolicy",
    "TrustStore",
    "Verdict",
]
