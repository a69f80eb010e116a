"""Every bound, with its reason. Bytes from outside are checked against these before anything is sliced or allocated."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- names -----------------------------------------------------------------------------------------------------

TOPIC_BYTES_MAX: Final = 255  # fits a length byte everywhere, and keeps keys of the log and lines of a table short
ORIGIN_BYTES_MAX: Final = 64  # a node id: a UUID or a host name's first labels

# --- batches ---------------------------------------------------------------------------------------------------

BATCH_BYTES_MAX: Final = 16 * MIB  # one gRPC frame; larger ones hold up everything behind them
BATCH_EVENTS_MAX: Final = 1_000_000  # at 16 bytes an event, what BATCH_BYTES_MAX can hold at all
EVENT_HEADERS_MAX: Final = 64  # headers are for routing and tracing, not for data
EVENT_KEY_BYTES_MAX: Final = 4 * KIB  # keys are compared and kept in memory by compaction

# --- EMM: Event Mesh Protocol datagrams --------------------------------------------------------------------------

EMM_PACKET_BYTES_MAX: Final = 548  # 576 (every IPv4 path carries it) - 20 (IP) - 8 (UDP): never fragmented
EMM_TLVS_MAX: Final = 64  # the document's bound on parsing work per packet, sub-TLVs included
EMM_INFLATED_BYTES_MAX: Final = 64 * KIB  # 120 times a packet: no sensor needs more, no bomb gets more
REPLAY_WINDOW_S: Final = 300
CLOCK_SKEW_S_MAX: Final = 120
REPLAY_CACHE_MAX: Final = 1 << 20  # 300 s at 3,500 packets/s; oldest go first

# --- EMM-C: the 8-byte header ------------------------------------------------------------------------------------

EMC_PACKET_BYTES_MAX: Final = 512  # the document's recommendation; the length byte allows 8 + 255 anyway
EMC_PAYLOAD_BYTES_MAX: Final = 255  # one length byte

# --- EXMP --------------------------------------------------------------------------------------------------------

EXMP_MESSAGE_BYTES_MAX: Final = 16 * MIB  # decided on the length prefix alone, before a byte of the body is kept
EXMP_PENDING_MAX: Final = 1024  # requests sent and not yet answered, per direction
