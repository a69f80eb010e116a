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

# --- UDP ---------------------------------------------------------------------------------------------------------

UDP_DATAGRAM_BYTES_MAX: Final = 2 * KIB  # read of one datagram; over twice what EMM and EMM-C allow, so cut is too long
UDP_DATAGRAMS_AT_ONCE: Final = 512  # received before other tasks have their turn: 1.5 ms, and what is done with them
UDP_SEND_QUEUE_MAX: Final = 4096  # datagrams, urgent ones apart: 2 MiB of each; more would be late rather than lost
UDP_RECEIVE_BUFFER_BYTES: Final = 8 * MIB  # 20,000 datagrams of 200 bytes: a pause of 0.2 s at 100,000/s
UDP_SOURCES_KEPT: Final = 65_536  # addresses read before, about 15 MiB; a flood with forged ones begins anew
UDP_SEND_BUFFER_BYTES: Final = 1 * MIB  # a burst leaves in one go; behind it is the queue, which knows urgent from not

# --- the EMM node and gateway -------------------------------------------------------------------------------------

GATEWAY_EMM_SEEN_MAX: Final = 1 << 21  # taken packets remembered against replays: 7 min at 5,000/s, 200 MB at most
GATEWAY_EMM_TURN_MAX: Final = 2048  # datagrams judged before the node's other work has its turn: 10 to 20 ms
GATEWAY_EMM_TURN_S: Final = 0.005  # between turns for a few datagrams, which cost a millisecond however few they are
GATEWAY_EMM_SIGNATURES_AT_ONCE: Final = 384  # Ed25519 checks in one turn: 15 ms on two cores, 30 to 40 ms on one
GATEWAY_EMM_SIGNATURES_MAX: Final = 16_384  # packets waiting for theirs, of known senders and of others each: a second
GATEWAY_EMM_SOURCES_MAX: Final = 10_000  # senders whose signatures were good lately; oldest go first
GATEWAY_EMM_OWED_BYTES_MAX: Final = 32 * MIB  # published and not yet synced: about a second at 100,000 packets/s
GATEWAY_EMM_TOPICS_MAX: Final = 10_000  # event names that get a topic of their own; further ones share one
GATEWAY_EMM_KEYS_KEPT_MAX: Final = 10_000  # prepared HMAC keys, 500 bytes each
GATEWAY_EMM_CREDIT_BYTES: Final = 1 * MIB  # of events on their way out to datagrams
QUARANTINE_PER_S: Final = 100.0  # refused packets kept as events: enough to see what is going on
QUARANTINE_BURST: Final = 1000
QUARANTINE_BYTES_MAX: Final = 256 * MIB  # of the quarantine in a node's log; half a million packets
EMM_PEERS_MAX: Final = 1024  # nodes that one EMM node talks to: each costs a heartbeat per interval
EMM_CAPABILITIES_BYTES_MAX: Final = 255  # kept of a peer's Hello: one field
EMM_JOIN_TIMEOUT_S: Final = 5.0  # for the answer to a Hello: three of them can be lost
EMM_GREET_PAUSE_S: Final = 1.0  # between two Hellos to one address: two nodes cannot greet each other endlessly
EMM_OUTBOX_MAX: Final = 4096  # packets waiting for their turn, urgent ones apart: 2 MiB of each
EMM_FORWARD_RULES_MAX: Final = 64  # looked through for every event
QUIC_CONNECTIONS_MAX: Final = 1024  # 60 KB each
QUIC_IDLE_TIMEOUT_S: Final = 60.0  # three heartbeats and more
QUIC_DATAGRAMS_AT_ONCE: Final = 512  # handed on before others have their turn
QUIC_FRAME_BYTES_MAX: Final = 2 * KIB  # a packet of either header format, with room
QUIC_FRAMES_WAITING_MAX: Final = 1024  # for one connection that is held up: 0.5 MiB; later ones are lost
QUIC_CONNECT_TIMEOUT_S: Final = 10.0  # two round trips and a certificate

# --- nodes that speak datagrams ------------------------------------------------------------------------------------

DATAGRAM_RELATIONSHIPS_MIN: Final = 10  # EMC-11
DATAGRAM_RELATIONSHIPS: Final = 32  # unless set: an event goes out as often, and any mesh holds together with fewer
EMC_RELATIONSHIPS_MAX: Final = 63  # a join tells it in six bits
DATAGRAM_KNOWN_MAX: Final = 1024  # nodes to find again, and nodes that are barred; about 0.5 MiB
DATAGRAM_CHANGES_MAX: Final = 1024  # of relationships, if nobody asks for them
DATAGRAM_SOUGHT_MAX: Final = 256  # addresses asked for a relationship: four times as many as there can be
DATAGRAM_SEEK_S_MIN: Final = 1.0  # a join was lost, or the other node is not up yet
DATAGRAM_SEEK_S_MAX: Final = 60.0  # a node that comes back after days is found within a minute
DATAGRAM_RECONNECT_S: Final = 3600.0  # a lost neighbour is asked for so long; one we were told to join, forever
DATAGRAM_BAR_S: Final = 600.0  # a dropped neighbour misses us after some heartbeats and asks again: not yet
EMC_STATUS_BYTES_MAX: Final = 142  # what a join's other fields leave of its 255 bytes
EMC_JOIN_TIMEOUT_S: Final = 10.0  # four joins, if three are lost
DATAGRAM_HEARTBEAT_INTERVAL_S: Final = 10  # a heartbeat is 90 bytes; a dead neighbour is noticed in 35 s
DATAGRAM_HEARTBEAT_MISSES_MAX: Final = 3  # with 10 % loss, a living neighbour is dropped once in 1,000 intervals
DATAGRAM_SEEN_S: Final = 300.0  # EMC-13
DATAGRAM_SEEN_MAX: Final = 1 << 18  # 300 s at 870 events/s, 50 MiB; oldest go first
DATAGRAM_OUTBOX_MAX: Final = 1024  # waiting for one neighbour, urgent ones apart; they share the bytes: 20 MiB in all
DATAGRAM_EVENTS_MAX: Final = 8192  # received and not yet taken by the application, urgent ones apart: 4 MiB
DATAGRAM_RATE_PER_S_MAX: Final = 20_000  # to one neighbour, unless set: an eighth of a core
DATAGRAM_RATE_PER_S_MIN: Final = 20  # however often congestion is reported: alarms get through, a modem carries it
DATAGRAM_BURST_S: Final = 0.02  # of the rate may leave at once: a switch's buffer takes 400 small datagrams
DATAGRAM_BURST_MIN: Final = 16  # at any rate: a burst that every device takes
DATAGRAM_CUT_INTERVAL_S: Final = 1.0  # between two cuts of the rate: reports in between are of the same congestion
DATAGRAM_RECOVERY_S: Final = 20.0  # from nothing to the full rate: after one cut, ten seconds

# --- EXMP --------------------------------------------------------------------------------------------------------

EXMP_MESSAGE_BYTES_MAX: Final = 16 * MIB  # decided on the length prefix alone, before a byte of the body is kept
EXMP_PENDING_MAX: Final = 1024  # requests sent and not yet answered, per direction
EXMP_QUEUE_BYTES_MAX: Final = 16 * MIB  # requests waiting behind the one in work: one of the largest, or many small
EXMP_JSON_DEPTH_MAX: Final = 64  # nesting of `data`; far below where encoding it again would recurse too deep
EXMP_HANDSHAKE_TIMEOUT_S: Final = 5.0  # as long as the reference waits for a hello
EXMP_PING_INTERVAL_S: Final = 10.0  # the reference's
EXMP_PONG_TIMEOUT_S: Final = 30.0  # the pong may come behind a message of 16 MiB on a line of 5 Mbit/s
EXMP_CONNECTIONS_MAX: Final = 4096  # of one port: 10 KiB each when idle, and files enough for the log besides
EXMP_BACKOFF_S_MIN: Final = 0.1  # as the SDK's: a restarted server is there again after a second or two
EXMP_BACKOFF_S_MAX: Final = 10.0  # after a long outage, nobody waits longer than this
EXMP_CONNECT_TIMEOUT_S: Final = 10.0  # for the first connection; a program that starts beside its server gets it
EXMP_OP_SHOWN_CHARS: Final = 64  # of an operation that nobody knows, in the answer that says so
EXMP_STRANGER_BYTES_MAX: Final = 64 * KIB  # of a message of somebody who has not authenticated: a key has 80 characters
EXMP_STRANGER_S: Final = 30.0  # to authenticate in; strangers must not use up the connections
EXMP_GATEWAY_QUEUE_BYTES_MAX: Final = 1 * MIB  # of requests behind the one in work, on each of 4,096 connections
GATEWAY_GATHER_BYTES: Final = 1 * MIB  # of events put into one batch: as many as a frame to a peer takes
GATEWAY_GATHER_EVENTS: Final = 10_000  # likewise, of events however small
EXMP_SUBSCRIPTIONS_MAX: Final = 64  # of one connection: one for each thing that a program looks at
EXMP_CREDIT_BYTES: Final = 1 * MIB  # delivered to one subscription and not handled yet; at least one batch
EXMP_EVENTS_AT_ONCE: Final = 256  # taken out of a batch: a batch of a million would be a gigabyte as objects
EXMP_FLUSH_BYTES: Final = 256 * KIB  # of events written at a time: what a client does not take is at most this more
EXMP_WINDOW: Final = 64  # events on their way to a client that does not say: a round trip on a LAN is covered
EXMP_WINDOW_MAX: Final = EXMP_PENDING_MAX  # more are not sent on one connection
EXMP_FETCH_EVENTS: Final = 100  # in the answer to a fetch that does not say
EXMP_FETCH_EVENTS_MAX: Final = 1000  # a few milliseconds in which nobody else is served
EXMP_FETCH_BYTES_MAX: Final = 4 * MIB  # of batches read for one fetch: as JSON, well below the longest message
EXMP_LINGER_S: Final = 1.0  # for last words to arrive, and the other side to close; then the socket is just closed
EXMP_GOODBYE_S: Final = 2.0  # for all connections of a port to end when it closes

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
LIBP2P_UPGRADE_S: Final = 10.0  # from a TCP connection to one with streams: a few round trips and an RSA signature
LIBP2P_NEGOTIATION_S: Final = 10.0  # for the two lines that begin a stream
LIBP2P_DIAL_S: Final = 10.0  # for a TCP connection
LIBP2P_UNSENT_BYTES_MAX: Final = 16 * MIB  # to one peer; eight of the longest messages, then it is hung up on
LIBP2P_STALL_S: Final = 30.0  # a peer that takes nothing for so long is hung up on by whoever waits for it
LIBP2P_CONNECTIONS_MAX: Final = 1024  # of one host, those being upgraded included; others are hung up on
LIBP2P_DISCOVERY_S: Final = 10.0  # between mDNS queries, and between attempts to reach bootstrap peers (COA-02)
MDNS_ANSWER_INTERVAL_S: Final = 1.0  # RFC 6762, 6: the same records no more often
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
COATY_PING_TIMEOUT_S: Final = 5.0  # for a new connection and an answer; then the peer is dead
COATY_SETTLING_S: Final = 1.0  # the document's second (COA-07)
COATY_SETTLING_S_MAX: Final = 10.0  # neighbours that come and go without end do not keep an agent silent
COATY_DEFERRED_BYTES_MAX: Final = 16 * MIB  # published before the agent may speak
COATY_OBSERVED_MAX: Final = 1024  # events waiting for one observer; then neighbours wait, too
COATY_OBSERVED_BYTES_MAX: Final = 16 * MIB  # likewise: four of the longest, or a thousand of 16 KiB
COATY_BRIDGE_CREDIT_BYTES: Final = 4 * MIB  # delivered to a bridge and not said yet: two of the longest
COATY_QUESTION_S: Final = 60.0  # for how long answers are brought back to the mesh; agents wait for seconds
COATY_QUESTIONS_MAX: Final = 1024  # each is a subscription that neighbours keep, too
COATY_MEET_S: Final = 1.0  # until a bridge asks newcomers whether they are bridges, too
COATY_TEND_S: Final = 5.0  # between looks at questions that nobody answered
COATY_FOUND_MAX: Final = 64  # announced peers dialled at a time
COATY_PING_LOOP_S: Final = 2.0  # in its ping loop, the reference is back 0.2 s after an ack; others dial first

# --- the mesh ----------------------------------------------------------------------------------------------------

PEER_FRAME_BYTES_MAX: Final = BATCH_BYTES_MAX + MIB  # a frame carries at least one batch of any size
PEER_FEATURES_MAX: Final = 64  # names in a handshake; we know fewer than ten
PEER_NAME_CHARS_MAX: Final = 300  # of a feature or an address: a host name of 253 and a port
PEER_ADDRESSES_MAX: Final = 16  # of one node

# --- peer links --------------------------------------------------------------------------------------------------

LINK_QUEUE_FRAMES_MAX: Final = 8192  # batches waiting for one peer; of 1 KiB each, the window is reached before it
LINK_QUEUE_BYTES_MAX: Final = 32 * MIB  # more than a peer may have unacknowledged, so that honest windows fit
LINK_URGENT_BYTES_MAX: Final = 32 * MIB  # acks and resumes that a peer does not take: then the link is given up
LINK_SEND_TIMEOUT_S: Final = 5.0  # a peer that took nothing for so long is not about to
LINK_TELL_S_MIN: Final = 0.1  # between two reports of what was thrown away: each makes the core send it again
LINK_FRAME_BYTES: Final = 1 * MIB  # batches are put together up to this: below, frames cost; above, they block others
LINK_FRAME_ACKS_MAX: Final = 4096  # in one frame: about 400 KiB
LINK_READ_BYTES: Final = 1 * MIB  # of frames handled before other tasks have their turn: 1 to 10 ms
LINK_READ_BATCHES: Final = 256  # likewise, of batches however small
LINK_CONTROL_FRAMES_MAX: Final = 256  # gossip and probes waiting; oldest go first, the next round says it again
LINK_CONTROL_BYTES_MAX: Final = 4 * MIB  # 16 of the largest gossip messages
LINK_HEARTBEATS_MAX: Final = 4  # waiting; the newest say it best
LINK_ACCEPTED_MAX: Final = 2048  # links that others dialled, half-made ones included: twice a hub's neighbours
LINK_REASON_CHARS_MAX: Final = 512  # of a peer's own words in our log
LINK_LATENCIES_KEPT: Final = 512  # the last so many frames make the quantiles of the send latency
LINK_BACKOFF_S_MIN: Final = 0.1  # a restarted peer is there again after a second or two
LINK_BACKOFF_S_MAX: Final = 30.0  # after a long outage, nobody waits longer than this for the link
LINK_BACKOFF_JITTER: Final = 0.5  # half of a delay: a thousand nodes do not come back at once
LINK_DIAL_TIMEOUT_S: Final = 10.0  # a connection around the world takes one second, with lost packets several
LINK_HANDSHAKE_TIMEOUT_S: Final = 5.0  # both handshakes, a round trip each
LINK_DRAIN_TIMEOUT_S: Final = 5.0  # for what waits at a shutdown: 32 MiB at 50 Mbit/s
LINK_FAREWELL_TIMEOUT_S: Final = 1.0  # to say why a link is given up; a peer that does not listen need not know
LINK_KEEPALIVE_S: Final = 10.0  # between HTTP/2 pings; heartbeats find out first, but only that the peer is silent
LINK_KEEPALIVE_TIMEOUT_S: Final = 10.0  # a ping may come behind a frame of 16 MiB

# --- routing -----------------------------------------------------------------------------------------------------

INTEREST_PATTERNS_MAX: Final = 256  # told by one node: 5 KiB of gossip as people name topics, 64 KiB at worst
MATCHES_KEPT_MAX: Final = 4096  # topics whose subscribers are remembered: those that are published again and again
MATCHES_KEPT_VALUES_MAX: Final = 1024  # in one remembered answer: a mesh of 1,000 nodes; 32 MiB in all, at worst
TREES_KEPT_MAX: Final = 16  # of a view: 40 KiB each in a mesh of 1,000 nodes, and half a millisecond to compute again
PLACES_KEPT_MAX: Final = 4096  # of a view, one per origin for a node: 1 KiB on average, 80 KiB in its own tree

# --- core --------------------------------------------------------------------------------------------------------

INTEREST_OWN_PATTERNS_MAX: Final = 32  # of INTEREST_PATTERNS_MAX, for topics of the mesh itself: groups and inboxes
LINK_WINDOW_BYTES: Final = 8 * MIB  # sent to a peer and not yet acknowledged: 100 ms of a gigabit line, with its sync
LINK_READ_BYTES_MAX: Final = 1 * MIB  # of one stream for one peer or subscriber at a time, so that streams take turns
LINK_ACK_TIMEOUT_S: Final = 30.0  # a peer that syncs nothing for so long gets it again: its disk was full
COPIES_TIMEOUT_S: Final = 10.0  # longer than a link needs to come back, shorter than publishers wait
COPIES_MAX: Final = 7  # nodes that one receipt may wait for
ROUTES_DELAY_S: Final = 0.01  # changes of the mesh that come together are looked at once
ORPHAN_DELAY_S: Final = 3.0  # an origin out of reach for so long has nobody's tree; gossip needs less to tell of one
INTEREST_DELAY_S: Final = 0.02  # subscriptions that come together are told together
RESUME_POSITIONS_MAX: Final = 4096  # in one message, about 300 KiB
RESUME_PARTS_MAX: Final = 256  # messages of one resume: a million streams, ten times what a log is made for
PLAIN_WINDOW_EVENTS: Final = 1000  # sent to a plain peer and not yet acknowledged
PLAIN_GAP_S: Final = 3.0  # for a plain peer to go back to what is missing: many round trips; then its link is dropped
PUMP_BYTES_MAX: Final = 2 * MIB  # handed to one subscriber in one step; others have their turn in between

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

# --- groups ------------------------------------------------------------------------------------------------------

GROUPS_MAX: Final = 4096  # known to one node: groups are named by people, and each is a topic
GROUP_NAME_CHARS_MAX: Final = 64  # as the log has it, and short enough for a topic
GROUP_MEMBERS_MAX: Final = 1000  # of one group at one node: each is a connection
GROUP_HELD_MAX: Final = 10_000  # streams of one group at one node: they are told in one event
GROUP_STATE_BYTES_MAX: Final = 8 * MIB  # of that event: 800 bytes a stream if all names are as long as can be
GROUP_POSITIONS_MAX: Final = 100_000  # of one group: ten nodes with as many streams as they can hold
GROUP_SAY_EVENTS_MAX: Final = 10_000  # positions said in one batch: 4 MiB at worst
GROUP_STREAMS_KEPT_MAX: Final = 65_536  # names of streams whose parts are remembered, about 30 MB

GROUP_PUBLISH_INTERVAL_S: Final = 1.0  # what another node may hand out again when this one dies
GROUP_RELEASE_TIMEOUT_S: Final = 10.0  # for what a member has in hand; afterwards it counts as stuck
GROUP_START_S: Final = 30.0  # after a start, until it is clear which of the nodes that the log tells of are alive
GROUP_SETTLE_S: Final = 0.25  # twice what an event takes through a mesh of a few hops, each with a sync

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
RECENT_BYTES_MAX: Final = 32 * MIB  # of the last batches, in memory: what readers at the end of a stream ask for
PRODUCER_RECEIPTS_MAX: Final = 64  # per producer and stream: more than a client has in flight
PRODUCERS_MAX: Final = 100_000  # per log; those that were silent longest are forgotten
DISK_RESERVE_BYTES: Final = 256 * MIB  # kept free: RocksDB needs room to flush what it has already taken

# --- the node's configuration ------------------------------------------------------------------------------------

CONFIG_FILE_BYTES_MAX: Final = 1 * MIB  # people write a few KiB; 1,024 tables of topics take 150

# --- the client --------------------------------------------------------------------------------------------------

CLIENT_FRAME_BYTES_MAX: Final = 2 * BATCH_BYTES_MAX  # a delivery gathers batches, and the last may be of any size
CLIENT_MESSAGE_BYTES: Final = 512 * KIB  # batches are put together up to this; with one of any size behind it, it fits
CLIENT_CREDIT_BYTES: Final = 16 * MIB  # what a slow application holds in memory; at 1 GB/s a node is idle after 16 ms
CLIENT_UNACKNOWLEDGED_BYTES_MAX: Final = 64 * MIB  # published and without a receipt: half a second of the fastest
CLIENT_EVENT_BYTES: Final = 64  # what an event without a receipt costs beside its bytes, so that bytes bound events too
CLIENT_BATCHES_IN_FLIGHT_MAX: Final = PRODUCER_RECEIPTS_MAX // 2  # per stream: a node recognises each that comes again
CLIENT_IN_DOUBT_TIMEOUT_S: Final = 60.0  # a node that was killed is back by then, or somebody has been called
CLIENT_NODES_MAX: Final = 64  # addresses remembered; the newest learned go first
CLIENT_LANES_KEPT_MAX: Final = 4096  # topics published to; those with nothing under way are forgotten, at no loss
CLIENT_REQUESTS_MAX: Final = 65_536  # requests without a reply, per client

# --- metrics -----------------------------------------------------------------------------------------------------

PEER_LABELS_MAX: Final = 256  # ten series each; a Prometheus takes it, and no person looks at more links of one node
GROUP_LABELS_MAX: Final = 256  # as peers
REFUSAL_LABELS_MAX: Final = 32  # codes of refusals; there are fifteen
ADMIN_CONNECTIONS_MAX: Final = 64  # to the admin HTTP server: a few scrapers and people; more get a 503

# --- what a node does for clients --------------------------------------------------------------------------------

CLIENT_POSITIONS_MAX: Final = 100_000  # in one message: a group over as many topics as a log is made for
PUBLISH_BATCHES_MAX: Final = 1024  # in one message of a client; each one is answered by itself
CLIENT_REPLIES_MAX: Final = 10_000  # waiting for a client that does not read: then its stream is not read either
DELIVERY_BYTES_MAX: Final = 1 * MIB  # gathered in one message: gRPC's cost per message is 1 % of copying that
ERROR_TEXT_CHARS_MAX: Final = 1024  # of a refusal and of each of its facts; they fit gRPC's 8 KiB of metadata
LOOK_STREAMS_AT_ONCE: Final = 256  # looked up before others get their turn: some milliseconds
CLIENT_ADDRESSES_MAX: Final = 32  # told to a client: enough to find a living one, of a mesh of any size
LOSSES_COUNTED_MAX: Final = 10_000  # damaged stretches that the metric adds up; beyond them a log needs more than that
INBOX_AGE_S: Final = 3600  # replies to requests are read within seconds or never
PLAIN_AGE_S: Final = 7 * 86_400  # how long a peer that knows only four messages may be away and miss nothing

# --- the Spark sink ----------------------------------------------------------------------------------------------

STAGING_AGE_S: Final = 86_400  # rows that a job has staged: a driver that died is started again within the day
DECISIONS_AGE_S: Final = 90 * 86_400  # what a job has written last; a query that rested for longer is a new one
DECISIONS_BYTES_MAX: Final = 4 * BATCH_BYTES_MAX  # of one job: only the last decision counts, and one fits a batch
SINK_BATCH_BYTES: Final = 1 * MIB  # of rows that are published together, as the client's own batches
SINK_GATHER_BYTES: Final = 8 * MIB  # of rows gathered before they are sorted by topic: many topics, larger batches
SINK_STAGED_MAX: Final = 1 << 18  # batches in one write: 256 GiB of rows of one topic; their list fits an event
SINK_TARGETS_MAX: Final = 1 << 14  # topics and partitions in one write: a log remembers 100,000 producers' batches
SINK_IN_FLIGHT_MAX: Final = 32  # batches of one job without a receipt: 32 MiB unless single rows are huge
SINK_NODE_TIMEOUT_S: Final = 60.0  # for the node that keeps a job's decisions to be reached: a restart takes seconds

# --- the replay pipeline -----------------------------------------------------------------------------------------

REPLAY_STEP_EVENTS: Final = 100_000  # written by one Spark job, of some seconds: what a killed replay does again
REPLAY_STEP_EVENTS_MAX: Final = 10_000_000  # 10 GiB of events of 1 KiB, held in executors' memory or on their disks
REPLAY_STRETCHES_MAX: Final = 100_000  # of a plan, which is one event: 10 G events in steps of 100,000
REPLAY_TOPICS_SHOWN_MAX: Final = 50  # of a plan for people, who receives each included: a call to the node per topic

# --- the command line --------------------------------------------------------------------------------------------

CONTEXTS_FILE_BYTES_MAX: Final = 1 * MIB  # hundreds of contexts with long tokens

# --- security ----------------------------------------------------------------------------------------------------

SECURITY_FILE_BYTES_MAX: Final = 16 * MIB  # keys, trust, certificates: 40,000 keys of devices
SECURITY_RELOAD_INTERVAL_S: Final = 1.0  # a revoked key is noticed within it; a look is one stat call
CERTIFICATE_LIFETIME_S: Final = 24 * 3600  # SEC-01; a stolen one is of no use tomorrow
CERTIFICATE_LIFETIME_S_MIN: Final = 1  # for tests; X.509 counts in seconds
CERTIFICATE_LIFETIME_S_MAX: Final = 90 * 24 * 3600  # whoever wants longer ones wants no renewal, and has another CA
CERTIFICATE_BACKDATE_S_MAX: Final = 60.0  # before the CA's own time: clocks that are a little behind take it at once
AUTHORITY_LIFETIME_S: Final = 10 * 365 * 24 * 3600  # root and intermediate, as step-ca has it
CERTIFICATE_CHAIN_BYTES_MAX: Final = 64 * KIB  # a leaf and its intermediates take 2
CERTIFICATE_CHAIN_MAX: Final = 8  # certificates in it; two are usual
CERTIFICATE_NAMES_MAX: Final = 32  # DNS names and addresses of one node
HANDSHAKE_BEGIN_S: Final = 0.25  # gRPC needs 50 us from asking for a certificate to having it, and a core to run on
RENEWAL_BACKOFF_S_MIN: Final = 1.0  # a CA that restarts is back in a few seconds
RENEWAL_BACKOFF_S_MAX: Final = 300.0  # a third of a day is left when renewal begins: a hundred attempts
TOKEN_LIFETIME_S: Final = 300  # as step-ca's; long enough to carry it to another machine
TOKEN_LEEWAY_S: Final = 60  # between clocks, as step-ca has it
TOKEN_BYTES_MAX: Final = 8 * KIB  # 32 names of 60 characters take 3
USED_TOKENS_MAX: Final = 100_000  # not yet expired: 300 a second; more are refused until some expire
CA_BODY_BYTES_MAX: Final = 64 * KIB  # a request and a token; the same bound holds for a CA's answers
CA_CONNECTIONS_MAX: Final = 256  # enrolling or renewing at a time; each takes milliseconds
CA_CALL_TIMEOUT_S: Final = 10.0  # connecting, and then each read
API_KEYS_MAX: Final = 10_000  # in one store: looked up by id, so only the file grows
API_KEY_PATTERNS_MAX: Final = 64  # for publishing, and for subscribing: all are tried for each call
API_KEY_CHARS_MAX: Final = 128  # of a presented key; ours have 72 to 80
API_KEYS_CACHED_MAX: Final = 10_000  # results of verification; those not used for longest go first
API_KEYS_AT_ONCE: Final = 2  # verified at a time, each with 16 MiB and 50 to 200 ms of a core
FAILURES_BURST: Final = 10  # wrong keys or tokens of one source before it has to wait
FAILURES_PER_S: Final = 0.1  # after that
FAILURE_SOURCES_MAX: Final = 10_000  # remembered; those that failed longest ago go first
REFUSAL_INTERVAL_S: Final = 60.0  # between log lines of one cause and caller
REFUSALS_KEPT_MAX: Final = 1024  # causes and callers that lines are held back for
TRUST_KEYS_MAX: Final = 100_000  # of EMM devices

# --- Spark: the source -------------------------------------------------------------------------------------------

SPARK_BATCH_ROWS: Final = 10_000  # of one Arrow batch for Spark: from 5,000 to 30,000 it is fastest
SPARK_BATCH_BYTES: Final = 16 * MIB  # of one Arrow batch for Spark, unless a single event is larger: the JVM copies it
SPARK_PARTITION_BYTES: Final = 64 * MIB  # of one task: a quarter of a second, and little to do again when it fails
SPARK_PARTITION_BYTES_MIN: Final = 1 * MIB  # less is not worth a task, unless option minPartitions asks for more
SPARK_PARTITIONS: Final = 8  # tasks for what is worth them, unless option minPartitions asks for more
SPARK_PARTITIONS_MAX: Final = 100_000  # tasks of one job; Spark's scheduler gets slow before that
SPARK_UNAVAILABLE_S: Final = 60.0  # for nodes to come back before a query fails: a restart takes less
SPARK_SILENT_S: Final = 30.0  # a node that did not answer is not waited for again so soon, while others answer
SPARK_ASK_S: Final = 10.0  # for one node's positions; a hundred thousand streams take some seconds
SPARK_OTHERS_ASKED_MAX: Final = 64  # nodes that a job does not name and asks whether they have more, to warn of it
SPARK_OTHERS_AT_ONCE: Final = 16  # of these: each that is out of reach takes as long as the next line says
SPARK_OTHERS_CONNECT_S: Final = 2.0  # a node in the same network answers in milliseconds
SPARK_TOKEN_FILE_BYTES_MAX: Final = 4 * KIB  # an API key has 80 characters; a file of more is another file

# --- derived tables: health, rollup, objects -------------------------------------------------------------------------

HEALTH_WAITING_MAX: Final = 1024  # signals of one node that wait for the watermark: 17 a second for a minute
HEALTH_INTERVAL_S_MAX: Final = 86_400.0  # between heartbeats, as a node says of itself; EMM-C has a byte for it
OBJECTS_REMEMBER_S: Final = 86_400  # that an object was removed: news that are older still come after a long cut
OBJECTS_REMOVE_ATTEMPTS: Final = 10  # while others commit to the table: each race lost is one that somebody won
ROLLUP_DELAY_S_MAX: Final = 86_400  # between sending and publishing; beyond a day it is a clock that is wrong
ROLLUP_PERCENTILE_ACCURACY: Final = 1000  # ranks are off by a thousandth at most, for some KiB of state per window

# --- the pipeline `packets` --------------------------------------------------------------------------------------

PACKET_SEAL_KEYS_MAX: Final = 10_000  # keys that sealed packets are opened with: one for each device, or group of them
PACKET_HMAC_KEYS_KEPT_MAX: Final = 10_000  # keys whose first hash blocks are remembered, under 10 MB
PACKET_BUCKETS_MAX: Final = 4096  # of replay state: more than a cluster has cores, and each costs a call per batch
PACKET_PARCEL_ROWS: Final = 32_768  # packed together, about 10 MB: a bucket gets thousands of them in one message
PACKET_EVENTS_PER_TRIGGER: Final = 1_000_000  # unless told otherwise: 400 MB over all tasks, and seconds of work
PACKET_CAPTURE_BYTES_PER_TRIGGER: Final = 256 * MIB  # of capture files, unless told otherwise: a few million packets
PACKET_CAPTURE_ROWS: Final = 10_000  # in one Arrow batch, as everywhere
PACKET_LATE_S_MAX: Final = 86_400  # what a bucket remembers beyond its window: at 1,000 packets/s, 2 GB of state a day
PACKET_REPLAY_SLOT_S: Final = 30  # of a bucket's state: what is new is written again with what came in the same slot

# --- the lake ------------------------------------------------------------------------------------------------------

LAKE_FILE_BYTES: Final = 256 * MIB  # large enough that a table of a terabyte has 4,000 files, and one task reads it
LAKE_FILE_BYTES_MIN: Final = 64 * KIB  # for tests; anything near it is what compaction is there against
LAKE_FILE_BYTES_MAX: Final = 8 * 1024 * MIB  # readers split files by row groups, but uploads and copies do not
LAKE_GROUP_BYTES: Final = 64 * MIB  # of Arrow in one row group, held and sorted by a task: 300,000 rows of 221 bytes
LAKE_GROUP_ROWS: Final = 1_000_000  # likewise, however small they are
LAKE_OPEN_FILES_MAX: Final = 256  # partitions a task writes at a time; with more, files are closed early and small
LAKE_STATISTIC_CHARS_MAX: Final = TOPIC_BYTES_MAX  # of a text's least and most value in the Delta log
LAKE_COMMIT_ATTEMPTS: Final = 10  # of a batch, on an Iceberg table that others commit to: each race lost is one won
LAKE_BATCH_S_MAX: Final = 7 * 86_400  # no batch runs longer; files that may belong to a running one are left so long
LAKE_TOPIC_BUCKETS_MAX: Final = 256  # as many files are open at a time, and each batch writes as many
LAKE_READ_ROWS: Final = 65_536  # read from a file at a time when it is written anew
LAKE_KEEP_DAYS_MAX: Final = 36_500  # a hundred years: beyond it, keep all
LAKE_GRACE_HOURS_MAX: Final = 24 * 365  # a year of replaced files on disk

# --- the pipeline `audit` ------------------------------------------------------------------------------------------

AUDIT_STRETCH_BITS: Final = 16  # 65,536 offsets are added up together; halves of their hashes add up to 48 bits
AUDIT_RANGES_MAX: Final = 100  # of a stream and kind that are told apart; what is behind them is told as one
AUDIT_STREAMS_SHOWN_MAX: Final = 1000  # of those that differ: nobody reads more, and the summary counts them all
