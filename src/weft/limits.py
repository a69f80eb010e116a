"""The bounds that several rooms share, with their reasons; all others stand beside their use. Bytes from outside are
checked against them before anything is sliced or allocated."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- names -----------------------------------------------------------------------------------------------------

TOPIC_BYTES_MAX: Final = 255  # fits a length byte everywhere, and keeps keys of the log and lines of a table short
ORIGIN_BYTES_MAX: Final = 64  # a node id: a UUID or a host name's first labels
PARTITIONS_MAX: Final = 1 << 16  # a partition is a u16 in keys of the log
OFFSET_MAX: Final = (1 << 63) - 1  # offsets and epochs are longs to Spark and int64 to PeerLink

# --- batches ---------------------------------------------------------------------------------------------------

BATCH_BYTES_MAX: Final = 16 * MIB  # one gRPC frame; larger ones hold up everything behind them
BATCH_EVENTS_MAX: Final = 1_000_000  # at 16 bytes an event, what BATCH_BYTES_MAX can hold at all
EVENT_KEY_BYTES_MAX: Final = 4 * KIB  # keys are compared and kept in memory by compaction
EVENT_TIMESTAMP_US_MIN: Final = -62_135_596_800_000_000  # the year 1, where calendars of Python and Spark begin
EVENT_TIMESTAMP_US_MAX: Final = 253_402_300_799_999_999  # the end of 9999, where they end
EVENT_HEADERS_MAX: Final = 64  # headers are for routing and tracing, not for data
EVENT_HEADER_NAME_BYTES_MAX: Final = 255  # as a topic
EVENT_HEADER_VALUE_BYTES_MAX: Final = 4 * KIB  # as a key; W3C's baggage asks for more in total, never in one value
EVENT_PAYLOAD_BYTES_MAX: Final = BATCH_BYTES_MAX - MIB  # with the largest key and headers, one event still fits a batch

# --- EMM: Event Mesh Protocol datagrams --------------------------------------------------------------------------

EMM_PACKET_BYTES_MAX: Final = 548  # 576 (every IPv4 path carries it) - 20 (IP) - 8 (UDP): never fragmented
REPLAY_WINDOW_S: Final = 300
CLOCK_SKEW_S_MAX: Final = 120

# --- EMM-C: the 8-byte header ------------------------------------------------------------------------------------

EMC_PACKET_BYTES_MAX: Final = 512  # the document's recommendation; the length byte allows 8 + 255 anyway

# --- the EMM node and gateway -------------------------------------------------------------------------------------

QUARANTINE_PER_S: Final = 100.0  # refused packets kept as events: enough to see what is going on

QUIC_CONNECTIONS_MAX: Final = 1024  # 60 KB each

# --- nodes that speak datagrams ------------------------------------------------------------------------------------

DATAGRAM_RELATIONSHIPS_MIN: Final = 10  # EMC-11
DATAGRAM_KNOWN_MAX: Final = 1024  # nodes to find again, and nodes that are barred; about 0.5 MiB
DATAGRAM_SOUGHT_MAX: Final = 256  # addresses asked for a relationship: four times as many as there can be
DATAGRAM_RECONNECT_S: Final = 3600.0  # a lost neighbour is asked for so long; one we were told to join, forever
DATAGRAM_HEARTBEAT_INTERVAL_S: Final = 10  # a heartbeat is 90 bytes; a dead neighbour is noticed in 35 s
DATAGRAM_EVENTS_MAX: Final = 8192  # received and not yet taken by the application, urgent ones apart: 4 MiB
DATAGRAM_RATE_PER_S_MAX: Final = 20_000  # to one neighbour, unless set: an eighth of a core
DATAGRAM_RATE_PER_S_MIN: Final = 20  # however often congestion is reported: alarms get through, a modem carries it

# --- EXMP --------------------------------------------------------------------------------------------------------

EXMP_MESSAGE_BYTES_MAX: Final = 16 * MIB  # decided on the length prefix alone, before a byte of the body is kept
EXMP_PENDING_MAX: Final = 1024  # requests sent and not yet answered, per direction
EXMP_HANDSHAKE_TIMEOUT_S: Final = 5.0  # as long as the reference waits for a hello
EXMP_PING_INTERVAL_S: Final = 10.0  # the reference's
EXMP_PONG_TIMEOUT_S: Final = 30.0  # the pong may come behind a message of 16 MiB on a line of 5 Mbit/s
EXMP_CONNECTIONS_MAX: Final = 4096  # of one port: 10 KiB each when idle, and files enough for the log besides
EXMP_OP_SHOWN_CHARS: Final = 64  # of an operation that nobody knows, in the answer that says so
EXMP_LINGER_S: Final = 1.0  # for last words to arrive, and the other side to close; then the socket is just closed

# --- libp2p: what Coaty needs of it ------------------------------------------------------------------------------

MPLEX_MESSAGE_BYTES_MAX: Final = 1 * MIB  # MPLEX's own bound; decided on the length alone
IDENTIFY_BYTES_MAX: Final = 64 * KIB  # keys, addresses and protocol names; the reference's take 1 KiB
FLOODSUB_RPC_BYTES_MAX: Final = 4 * MIB  # the reference's pubsub dies of a longer one
FLOODSUB_DATA_BYTES_MAX: Final = 2 * MIB  # what we send in one message: proven to pass the reference
FLOODSUB_TOPIC_BYTES_MAX: Final = 4 * KIB  # a namespace of 236 characters and a type name, with room
LIBP2P_DISCOVERY_S: Final = 10.0  # between mDNS queries, and between attempts to reach bootstrap peers (COA-02)
MDNS_PACKET_BYTES_MAX: Final = 9000  # RFC 6762, 17
DNS_LABEL_BYTES_MAX: Final = 63
DNS_NAME_BYTES_MAX: Final = 255

# --- Coaty ---------------------------------------------------------------------------------------------------------

LIBP2P_CONNECTIONS_MAX: Final = 1024  # of one host unless set, those being upgraded included; others are hung up on
COATY_PAYLOAD_BYTES_MAX: Final = FLOODSUB_DATA_BYTES_MAX  # sent in one event
COATY_RECEIVED_BYTES_MAX: Final = FLOODSUB_RPC_BYTES_MAX  # nothing longer can arrive
COATY_JSON_DEPTH_MAX: Final = 64  # nesting of a payload; recursive checks of it stay far from Python's own bound
COATY_WILLS_MAX: Final = 4096  # known last wills, one per agent of the mesh: 10,000 of them fill a frame
COATY_OBSERVED_MAX: Final = 1024  # events waiting for one observer; then neighbours wait, too
COATY_OBSERVED_BYTES_MAX: Final = 16 * MIB  # four of the longest, or a thousand of 16 KiB

# --- the mesh ----------------------------------------------------------------------------------------------------

PEER_FRAME_BYTES_MAX: Final = BATCH_BYTES_MAX + MIB  # a frame carries at least one batch of any size
PEER_FEATURES_MAX: Final = 64  # names in a handshake; we know fewer than ten
PEER_NAME_CHARS_MAX: Final = 300  # of a feature or an address: a host name of 253 and a port
PEER_ADDRESSES_MAX: Final = 16  # of one node

# --- peer links --------------------------------------------------------------------------------------------------

LINK_LATENCIES_KEPT: Final = 512  # the last so many frames make the quantiles of the send latency

# --- routing -----------------------------------------------------------------------------------------------------

INTEREST_PATTERNS_MAX: Final = 256  # told by one node: 5 KiB of gossip as people name topics, 64 KiB at worst
INTEREST_FILTER_BYTES_MAX: Final = 64 * KIB  # of one node's filter: 37,000 patterns with 0.3 % of mistakes
MATCHES_KEPT_MAX: Final = 4096  # topics whose subscribers are remembered: those that are published again and again

# --- core --------------------------------------------------------------------------------------------------------

LINK_WINDOW_BYTES: Final = 8 * MIB  # sent to a peer and not yet acknowledged: 100 ms of a gigabit line, with its sync
LINK_ACK_TIMEOUT_S: Final = 30.0  # a peer that syncs nothing for so long gets it again: its disk was full
COPIES_MAX: Final = 7  # nodes that one receipt may wait for

# --- membership --------------------------------------------------------------------------------------------------

MEMBERS_MAX: Final = 10_000  # ten times what is simulated; states of more nodes are refused, and counted
INCARNATION_MAX: Final = (1 << 62) - 1  # a counter or a clock stays far below, so a suspicion can always be refuted
GOSSIP_DIGESTS_MAX: Final = 128  # in one message, about 3 KiB; more follow in the next ones
GOSSIP_STATES_MAX: Final = 32  # in one message, about 5 KiB as people name things
GOSSIP_BYTES_MAX: Final = 256 * KIB  # of one message: more than the largest state takes (205 KiB)

# --- Capture files -----------------------------------------------------------------------------------------------

CAPTURE_BYTES_MAX: Final = 1024 * MIB  # a capture is read whole: what a tool may take of a small machine's memory

# --- the log -----------------------------------------------------------------------------------------------------

SEGMENT_BYTES: Final = 64 * MIB  # one table file: written twice (write-ahead log, table) and never again
READ_BYTES_MAX: Final = 4 * MIB  # of one read, unless a single batch is larger
PRODUCER_RECEIPTS_MAX: Final = 64  # per producer and stream: more than a client has in flight
PREPARED_BYTES: Final = SEGMENT_BYTES + 2 * MIB  # a segment and its books: the log file is long enough for ever
DISK_RESERVE_BYTES: Final = 256 * MIB  # kept free: RocksDB needs room to flush what it has already taken

# --- what a node does for clients --------------------------------------------------------------------------------

CLIENT_POSITIONS_MAX: Final = 100_000  # in one message: a group over as many topics as a log is made for
FETCH_RANGES_MAX: Final = 4096  # of one fetch: a request of 400 KB as people name topics; more are asked for after it
WHOAMI_TOPICS_MAX: Final = 1000  # topics in one question of a caller about its rights: 255 KB at most
ERROR_TEXT_CHARS_MAX: Final = 1024  # of a refusal and of each of its facts; they fit gRPC's 8 KiB of metadata
LOOK_STREAMS_AT_ONCE: Final = 128  # looked up before others get their turn: a few milliseconds
LOOK_BYTES_AT_ONCE: Final = 1 * MIB  # of batches that are read for that, up to the end of a batch

# --- the Spark sink ----------------------------------------------------------------------------------------------

STAGING_AGE_S: Final = 86_400  # rows that a job has staged: a driver that died is started again within the day

# --- security ----------------------------------------------------------------------------------------------------

SECURITY_RELOAD_INTERVAL_S: Final = 1.0  # a revoked key is noticed within it; a look is one stat call
CERTIFICATE_LIFETIME_S: Final = 24 * 3600  # SEC-01; a stolen one is useless tomorrow
CERTIFICATE_LIFETIME_S_MIN: Final = 1  # for tests; X.509 counts in seconds
CERTIFICATE_LIFETIME_S_MAX: Final = 90 * 24 * 3600  # longer ones would mean no renewal, which takes another CA
CERTIFICATE_NAMES_MAX: Final = 32  # DNS names and addresses of one node
TOKEN_BYTES_MAX: Final = 8 * KIB  # 32 names of 60 characters take 3
CA_BODY_BYTES_MAX: Final = 64 * KIB  # a request and a token; the same bound holds for a CA's answers
API_KEY_CHARS_MAX: Final = 128  # of a presented key; ours have 72 to 80

# --- Spark: the source -------------------------------------------------------------------------------------------

SPARK_BATCH_ROWS: Final = 10_000  # of one Arrow batch for Spark: from 5,000 to 30,000 it is fastest

# --- derived tables: health, rollup, objects -------------------------------------------------------------------------

HEALTH_INTERVAL_S_MAX: Final = 86_400.0  # between heartbeats, as a node says of itself; EMM-C has a byte for it

# --- the lake ------------------------------------------------------------------------------------------------------

LAKE_COMMIT_ATTEMPTS: Final = 10  # of a batch, on an Iceberg table that others commit to: each race lost is one won
