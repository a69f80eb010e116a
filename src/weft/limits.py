"""Every bound, with its reason. Bytes from outside are checked against these before anything is sliced or allocated."""

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
EVENT_HEADERS_MAX: Final = 64  # headers are for routing and tracing, not for data
EVENT_KEY_BYTES_MAX: Final = 4 * KIB  # keys are compared and kept in memory by compaction
EVENT_HEADER_NAME_BYTES_MAX: Final = 255  # as a topic
EVENT_HEADER_VALUE_BYTES_MAX: Final = 4 * KIB  # as a key; W3C's baggage asks for more in total, never in one value
EVENT_PAYLOAD_BYTES_MAX: Final = BATCH_BYTES_MAX - MIB  # with the largest key and headers, one event still fits a batch
BATCH_METADATA_BYTES_MAX: Final = 2 * KIB  # Arrow's own writer needs 472 for our schema; other writers pad differently

# --- EMM: Event Mesh Protocol datagrams --------------------------------------------------------------------------

EMM_PACKET_BYTES_MAX: Final = 548  # 576 (every IPv4 path carries it) - 20 (IP) - 8 (UDP): never fragmented
EMM_TLVS_MAX: Final = 64  # the document's bound on parsing work per packet, sub-TLVs included
EMM_INFLATED_BYTES_MAX: Final = 64 * KIB  # 120 times a packet: no sensor needs more, no bomb gets more
EMM_FIRST_USE_KEYS_MAX: Final = 100_000  # trust on first use; nodes past that are refused, none is forgotten
EMM_INTAKE_MAX: Final = 65_536  # datagrams waiting to be verified, 36 MB at most: under a second of work
REPLAY_WINDOW_S: Final = 300
CLOCK_SKEW_S_MAX: Final = 120
REPLAY_CACHE_MAX: Final = 1 << 20  # 300 s at 3,500 packets/s; oldest go first

# --- EMM-C: the 8-byte header ------------------------------------------------------------------------------------

EMC_PACKET_BYTES_MAX: Final = 512  # the document's recommendation; the length byte allows 8 + 255 anyway
EMC_PAYLOAD_BYTES_MAX: Final = 255  # one length byte
EMC_TLVS_MAX: Final = 64  # parsing work per packet, sub-TLVs included; each of the 25 known types occurs at most once
EMC_GROUP_KEYS_MAX: Final = 8  # a forgery costs one HMAC per key; a rotation needs two at a time
EMC_GROUP_KEY_BYTES_MIN: Final = 16  # as strong as the shortest tag made with it
EMC_SENDER_KEYS_MAX: Final = 4  # Ed25519 keys tried for one sender: old and new, or owners of one 4-byte fingerprint

# --- EXMP --------------------------------------------------------------------------------------------------------

EXMP_MESSAGE_BYTES_MAX: Final = 16 * MIB  # decided on the length prefix alone, before a byte of the body is kept
EXMP_PENDING_MAX: Final = 1024  # requests sent and not yet answered, per direction
EXMP_QUEUE_BYTES_MAX: Final = 16 * MIB  # requests waiting behind the one in work: one of the largest, or many small
EXMP_JSON_DEPTH_MAX: Final = 64  # nesting of `data`; far below where encoding it again would recurse too deep
EXMP_HANDSHAKE_TIMEOUT_S: Final = 5.0  # as long as the reference waits for a hello
EXMP_PING_INTERVAL_S: Final = 10.0  # the reference's
EXMP_PONG_TIMEOUT_S: Final = 30.0  # the pong may come behind a message of 16 MiB on a line of 5 Mbit/s

# --- libp2p: what Coaty needs of it ------------------------------------------------------------------------------

VARINT_BYTES_MAX: Final = 10  # 64 bits in groups of seven
PROTOBUF_FIELDS_MAX: Final = 16_384  # of one message, unknown ones too: 4 MiB of two-byte fields would take seconds
PEER_ID_KEY_BYTES_MAX: Final = 42  # longer keys are hashed into the peer id; an Ed25519 key (36) stands in it as it is
PUBLIC_KEY_BYTES_MAX: Final = 2 * KIB  # an RSA key of 8192 bits takes 1,067
RSA_KEY_BITS_MIN: Final = 2048  # what the reference generates; less is within reach of a patient attacker
RSA_KEY_BITS_MAX: Final = 8192  # verifying takes 0.4 ms at this size and grows with the square
RSA_EXPONENT_MAX: Final = (1 << 32) - 1  # all use 65537; a full-size exponent would make verifying as dear as signing
SIGNATURE_BYTES_MAX: Final = 1 * KIB  # that of an RSA key of 8192 bits
MULTIADDR_BYTES_MAX: Final = 512  # a DNS name (253) and a peer id (42), with room
MULTIADDR_PARTS_MAX: Final = 8  # address, port, peer id; relays would need twice that
MULTISTREAM_LINE_BYTES_MAX: Final = 1024  # protocol names have a few dozen bytes
MULTISTREAM_REFUSALS_MAX: Final = 32  # proposals (and `ls`) answered before the stream is given up
SECIO_HANDSHAKE_BYTES_MAX: Final = 16 * KIB  # the largest honest message (RSA, 8192 bits) is a tenth of it
SECIO_FRAME_BYTES_MAX: Final = 8 * MIB  # SECIO's own bound; decided on the length alone
SECIO_SEND_BYTES_MAX: Final = 1 * MIB  # plaintext put into one frame: the receiver keeps a whole frame before its MAC
MPLEX_MESSAGE_BYTES_MAX: Final = 1 * MIB  # MPLEX's own bound; decided on the length alone
MPLEX_STREAMS_MAX: Final = 1024  # open at a time, either side's; a Coaty peer has about five
MPLEX_STREAM_NUMBER_MAX: Final = (1 << 28) - 1  # the reference shifts ids in 32 signed bits
IDENTIFY_BYTES_MAX: Final = 64 * KIB  # keys, addresses and protocol names; the reference's take 1 KiB
IDENTIFY_ITEMS_MAX: Final = 256  # addresses, and protocols
FLOODSUB_RPC_BYTES_MAX: Final = 4 * MIB  # the reference's pubsub dies of a longer one
FLOODSUB_DATA_BYTES_MAX: Final = 2 * MIB  # what we send in one message: proven to pass the reference
FLOODSUB_RPC_MESSAGES_MAX: Final = 64  # signatures checked in one call; the reference sends one message per RPC
FLOODSUB_RPC_SUBSCRIPTIONS_MAX: Final = 4096  # a peer tells all of its topics in one RPC when it connects
FLOODSUB_TOPICS_PER_PEER_MAX: Final = 4096  # an open request is a topic; 16 MiB if all are as long as can be
FLOODSUB_TOPIC_BYTES_MAX: Final = 4 * KIB  # a namespace of 236 characters and a type name, with room
FLOODSUB_MESSAGE_TOPICS_MAX: Final = 16  # the reference sends one
FLOODSUB_SEQNO_BYTES_MAX: Final = 32  # the reference sends 8 random bytes
FLOODSUB_SEEN_S: Final = 120.0  # four times as long as the reference remembers
FLOODSUB_SEEN_MAX: Final = 1 << 17  # 120 s at 1,000 messages/s; oldest go first
MDNS_PACKET_BYTES_MAX: Final = 9000  # RFC 6762, 17
MDNS_RECORDS_MAX: Final = 64  # read from one packet; a busy responder answers with a few dozen
MDNS_PEERS_MAX: Final = 8  # announced by one packet; the reference announces itself
MDNS_ADDRESSES_MAX: Final = 32  # of one peer: a host with many interfaces
DNS_LABEL_BYTES_MAX: Final = 63
DNS_NAME_BYTES_MAX: Final = 255
DNS_LABELS_MAX: Final = 32  # of one name; with the bounds above, a few thousand steps for the worst packet
DNS_POINTERS_MAX: Final = 16  # followed within one name: honest writers need one or two

# --- Coaty ---------------------------------------------------------------------------------------------------------

COATY_PAYLOAD_BYTES_MAX: Final = FLOODSUB_DATA_BYTES_MAX  # sent in one event
COATY_RECEIVED_BYTES_MAX: Final = FLOODSUB_RPC_BYTES_MAX  # nothing longer can arrive
COATY_TOPIC_BYTES_MAX: Final = FLOODSUB_TOPIC_BYTES_MAX
COATY_NAMESPACE_CHARS_MAX: Final = 236  # what the mDNS service name leaves of the 255 characters of a DNS name
COATY_JSON_DEPTH_MAX: Final = 64  # nesting of a payload; recursive checks of it stay far from Python's own bound
COATY_JSON_CONTAINERS_MAX: Final = 200_000  # arrays and objects in a payload: 0.2 s to read, and six per small object
COATY_TYPES_MAX: Final = 256  # core or object types of a Discover or Query: looked through for each candidate
COATY_FILTER_CONDITIONS_MAX: Final = 256  # of one object filter; people write a handful
COATY_FILTER_PATH_MAX: Final = COATY_JSON_DEPTH_MAX  # no property lies deeper
COATY_FILTER_ORDERS_MAX: Final = 16  # each one sorts the whole result again
COATY_FILTER_NODES_MAX: Final = 4096  # JSON values in all operands, and pairs of characters in Like patterns
COATY_LIKE_CHARS_MAX: Final = 1024  # of one Like pattern
COATY_MATCH_STEPS_MAX: Final = 100_000  # of matching one object: about 50 ms, then the filter is refused
COATY_QUERY_STEPS_MAX: Final = 2_000_000  # of matching all objects of a query: about a second; 200,000 simple tests
COATY_JOINS_MAX: Final = 16  # join conditions of one query
COATY_JOINED_MAX: Final = 10_000  # related objects put into one result; 2 MiB hold no more of them
COATY_IO_ASSOCIATIONS_MAX: Final = 1024  # of the IO points of one agent, which are a few dozen
COATY_LIVELINESS_BYTES_MAX: Final = MPLEX_MESSAGE_BYTES_MAX  # one message is one frame
COATY_ANNOUNCE_BYTES_MAX: Final = 256 * KIB  # of last wills in one message we send; more go out in several
COATY_WILLS_MAX: Final = 4096  # known last wills, one per agent of the mesh: 10,000 of them fill a frame
COATY_WILL_IDS_MAX: Final = 256  # objects that die with one agent: its identity and its IO nodes
COATY_VISITED_MAX: Final = COATY_WILLS_MAX  # peers that an announcement can have passed
COATY_NEIGHBOURS_MAX: Final = 4096  # connected peers whose liveliness is watched
COATY_PEER_ID_CHARS_MAX: Final = 128  # base58; the longest in use has 53
COATY_PING_LOOP_S: Final = 2.0  # in its ping loop, the reference is back 0.2 s after an ack; others dial first

# --- the mesh ----------------------------------------------------------------------------------------------------

PEER_FRAME_BYTES_MAX: Final = BATCH_BYTES_MAX + MIB  # a frame carries at least one batch of any size
PEER_FEATURES_MAX: Final = 64  # names in a handshake; we know fewer than ten
PEER_NAME_CHARS_MAX: Final = 300  # of a feature or an address: a host name of 253 and a port
PEER_ADDRESSES_MAX: Final = 16  # of one node

# --- routing -----------------------------------------------------------------------------------------------------

INTEREST_PATTERNS_MAX: Final = 256  # told by one node: 5 KiB of gossip as people name topics, 64 KiB at worst
MATCHES_KEPT_MAX: Final = 4096  # topics whose subscribers are remembered: those that are published again and again
MATCHES_KEPT_VALUES_MAX: Final = 1024  # in one remembered answer: a mesh of 1,000 nodes; 32 MiB in all, at worst
TREES_KEPT_MAX: Final = 16  # of a view: 40 KiB each in a mesh of 1,000 nodes, and half a millisecond to compute again
PLACES_KEPT_MAX: Final = 4096  # of a view, one per origin for a node: 1 KiB on average, 80 KiB in its own tree

# --- membership --------------------------------------------------------------------------------------------------

MEMBERS_MAX: Final = 10_000  # ten times what is simulated; states of more nodes are refused, and counted
TOMBSTONES_MAX: Final = 10_000  # digests of forgotten nodes, about 2 MB; oldest go first
INCARNATION_MAX: Final = (1 << 62) - 1  # a counter or a clock stays far below, so a suspicion can always be refuted
NEIGHBOURS_MAX: Final = 1024  # links one node tells of: a hub; 67 KiB of gossip at worst
GOSSIP_DIGESTS_MAX: Final = 128  # in one message, about 3 KiB; more follow in the next ones
GOSSIP_STATES_MAX: Final = 32  # in one message, about 5 KiB as people name things
GOSSIP_BYTES_MAX: Final = 256 * KIB  # of one message: more than the largest state takes (140 KiB)
GOSSIP_WINDOW: Final = 32  # digests per exchange that nothing asked for: all are compared in n / 32 exchanges
PROBE_RELAYS_MAX: Final = 1024  # pings sent for others and not yet answered; further requests are not served

HEARTBEAT_MISSES_MAX: Final = 3  # PL-03
HEARTBEAT_INTERVAL_S_MIN: Final = 2.0  # PL-03
HEARTBEAT_INTERVAL_S_MAX: Final = 10.0  # PL-03
HEARTBEAT_INTERVAL_S: Final = 5.0  # a silent link is unhealthy after 15 to 20 s; probes are faster
HEARTBEAT_ANSWER_S_MIN: Final = 1.0  # between answers: every honest beat gets one, two echoes get into no storm

GOSSIP_INTERVAL_S: Final = 1.0  # whoever missed a change has it a second later; an exchange costs about 1 KiB
GOSSIP_FAN_OUT: Final = 3  # links served per round: a node's traffic does not grow with its links
SPREAD_DELAY_S: Final = 0.05  # changes that come together go together; a hop is no slower than this
SPREAD_MULTIPLIER: Final = 2  # a change goes to 2 log2(n) peers: random meshes miss fewer than one node in a thousand
PROBE_INTERVAL_S: Final = 1.0  # as SWIM and memberlist have it
PROBE_TIMEOUT_S: Final = 0.5  # a round trip around the world, with room for a pause of the interpreter
PROBE_HELPERS: Final = 3  # with 10 % loss, all three fail together once in 150 times
SUSPICION_MULTIPLIER: Final = 3  # 6 s for three nodes, 30 s for a thousand: time to hear of it and to refute
UNREACHABLE_S: Final = 600.0  # a node behind a cut is most likely alive: it is not called dead for as long as that
DEAD_RETENTION_S: Final = 3600.0  # people look for a node that died within the hour
REJOIN_INTERVAL_S: Final = 5.0  # between dials of a node without links; backoff per address is the link's own
LEAVE_TIMEOUT_S: Final = 2.0  # a goodbye takes a few spread delays; a stuck link must not hold up a shutdown

# --- Capture files -----------------------------------------------------------------------------------------------

CAPTURE_BYTES_MAX: Final = 1024 * MIB  # a capture is read whole: what a tool may take of a small machine's memory
CAPTURE_PACKET_BYTES_MAX: Final = 256 * KIB  # tcpdump's largest snapshot length
CAPTURE_INTERFACES_MAX: Final = 1024  # per section of a pcapng file; each costs memory
CAPTURE_VLAN_TAGS_MAX: Final = 4  # stacked tags; two are common
CAPTURE_EXTENSION_HEADERS_MAX: Final = 8  # of IPv6, in one packet; more than two are rare

# --- the log -----------------------------------------------------------------------------------------------------

SEGMENT_BYTES: Final = 64 * MIB  # one table file: written twice (write-ahead log, table) and never again
INDEX_BYTES: Final = 64 * KIB  # of a stream between two index points: a time is found after reading no more than that
READ_BYTES_MAX: Final = 4 * MIB  # of one read, unless a single batch is larger
PRODUCER_RECEIPTS_MAX: Final = 64  # per producer and stream: more than a client has in flight
PRODUCERS_MAX: Final = 100_000  # per log; those that were silent longest are forgotten
DISK_RESERVE_BYTES: Final = 256 * MIB  # kept free: RocksDB needs room to flush what it has already taken
