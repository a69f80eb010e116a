"""EMM: Event Mesh Protocol datagrams with the 17-byte header.

- ``build`` makes packets: ``build(draft_event(...), Credentials(...))``.
- ``parse_untrusted`` reads one: well-formed or BadPacket. ``Judge`` goes on: authentic, fresh, new, open.
- ``columnar`` reads an Arrow array of datagrams at once, with the same verdict for each as the scalar parser;
  ``judge_columns`` judges it, with the same verdict for each as ``Judge``.
- ``describe`` takes a packet apart for people.

Time, keys and random numbers are arguments. Requirements EMM-01 to EMM-26 and EMM-29 in ``docs/requirements.md``.
"""

from weft.wire.emm.auth import SigningKey, Verdict, authenticate
from weft.wire.emm.build import (
    Credentials,
    Draft,
    build,
    compressed_if_smaller,
    draft_event,
    draft_heartbeat,
    draft_hello,
)
from weft.wire.emm.canonical import canonical_bytes
from weft.wire.emm.encryption import Encryption
from weft.wire.emm.fields import Algorithm, EventType, Field, Flags, Profile, Rules
from weft.wire.emm.judge import Judge, ReceivedPacket, Terms
from weft.wire.emm.packet import Packet
from weft.wire.emm.parse import parse_untrusted
from weft.wire.emm.replay import check_fresh, replay_mark, replay_sender
from weft.wire.emm.seal import Seal, SealRule, seal_for, unseal_untrusted
from weft.wire.emm.trust import TrustPolicy, TrustStore

__all__ = [
    "Algorithm",
    "Credentials",
    "Draft",
    "Encryption",
    "EventType",
    "Field",
    "Flags",
    "Judge",
    "Packet",
    "Profile",
    "ReceivedPacket",
    "Rules",
    "Seal",
    "SealRule",
    "SigningKey",
    "Terms",
    "TrustPolicy",
    "TrustStore",
    "Verdict",
    "authenticate",
    "build",
    "canonical_bytes",
    "check_fresh",
    "compressed_if_smaller",
    "draft_event",
    "draft_heartbeat",
    "draft_hello",
    "parse_untrusted",
    "replay_mark",
    "replay_sender",
    "seal_for",
    "unseal_untrusted",
]
