"""EMM-C: the compact, 8-byte-header draft of the Event Mesh Protocol, as bytes and values.

A packet is a header (``header``), a signature field whose size follows from the event type (``packet``), and a body: a
notification, a command, a heartbeat or a join (``body``). Bodies other than notifications are made of fields, all of
which stand in one table with their sizes and ranges (``fields``); the ones with an inside are values of their own
(``values``), and ``content`` undoes encoding and compression. ``auth`` says who vouches for a packet, ``commands``
which commands are carried out, ``numbering`` gives a node's events their triples, ``marking`` what belongs into the IP
header around them. ``describe`` and ``document`` show packets to people. ``columnar``, which needs Arrow and is
therefore not imported here, decodes whole columns.

    packet = decode_untrusted(datagram)      # well formed, or BadPacket with a reason
    proof = verify_untrusted(packet, ring)   # and believed, or BadPacket with a reason

Where the document contradicts itself, the ledger's rulings EMC-01 to EMC-10 hold.
"""

from weft.wire.emm_compact.auth import KeyRing, Proof, Signer, fingerprint, seal, verify_untrusted
from weft.wire.emm_compact.body import (
    Body,
    Command,
    Field,
    Heartbeat,
    Join,
    Notification,
    expiry_s_of,
    find,
    more_of,
    node_id_of,
)
from weft.wire.emm_compact.codes import (
    Compression,
    Ecn,
    EventType,
    FieldType,
    Format,
    PayloadEncoding,
    Priority,
    SupportedTypes,
    TopologyField,
)
from weft.wire.emm_compact.commands import Handler, draft_command, execute_untrusted
from weft.wire.emm_compact.content import compressed_if_smaller, content_untrusted
from weft.wire.emm_compact.describe import describe_untrusted
from weft.wire.emm_compact.document import from_document, to_document_untrusted
from weft.wire.emm_compact.header import Header, Triple
from weft.wire.emm_compact.marking import TTL_DEFAULT, dscp, ecn_of, goes_first, next_ttl, tos
from weft.wire.emm_compact.numbering import Numbering
from weft.wire.emm_compact.packet import SIGNATURE_BYTES, Packet, decode_untrusted, encode
from weft.wire.emm_compact.values import EventDigest, PropagationMap, RateSignal, TopologyHint

__all__ = [
    "SIGNATURE_BYTES",
    "TTL_DEFAULT",
    "Body",
    "Command",
    "Compression",
    "Ecn",
    "EventDigest",
    "EventType",
    "Field",
    "FieldType",
    "Format",
    "Handler",
    "Header",
    "Heartbeat",
    "Join",
    "KeyRing",
    "Notification",
    "Numbering",
    "Packet",
    "PayloadEncoding",
    "Priority",
    "Proof",
    "PropagationMap",
    "RateSignal",
    "Signer",
    "SupportedTypes",
    "TopologyField",
    "TopologyHint",
    "Triple",
    "compressed_if_smaller",
    "content_untrusted",
    "decode_untrusted",
    "describe_untrusted",
    "draft_command",
    "dscp",
    "ecn_of",
    "encode",
    "execute_untrusted",
    "expiry_s_of",
    "find",
    "fingerprint",
    "from_document",
    "goes_first",
    "more_of",
    "next_ttl",
    "node_id_of",
    "seal",
    "to_document_untrusted",
    "tos",
    "verify_untrusted",
]
