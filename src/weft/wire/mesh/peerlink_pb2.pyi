from weft.wire.mesh import mesh_pb2 as _mesh_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Liveness(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LIVENESS_UNSPECIFIED: _ClassVar[Liveness]
    LIVENESS_ALIVE: _ClassVar[Liveness]
    LIVENESS_SUSPECT: _ClassVar[Liveness]
    LIVENESS_DEAD: _ClassVar[Liveness]
    LIVENESS_LEFT: _ClassVar[Liveness]
LIVENESS_UNSPECIFIED: Liveness
LIVENESS_ALIVE: Liveness
LIVENESS_SUSPECT: Liveness
LIVENESS_DEAD: Liveness
LIVENESS_LEFT: Liveness

class PeerMessage(_message.Message):
    __slots__ = ("handshake", "event", "ack", "heartbeat", "batches", "acks", "resume", "gossip", "probe", "compressed", "closing", "keys", "past_request", "past", "begins", "call")
    HANDSHAKE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    GOSSIP_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    COMPRESSED_FIELD_NUMBER: _ClassVar[int]
    CLOSING_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    PAST_REQUEST_FIELD_NUMBER: _ClassVar[int]
    PAST_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    handshake: Handshake
    event: Event
    ack: Ack
    heartbeat: Heartbeat
    batches: PeerBatches
    acks: PeerAcks
    resume: PeerResume
    gossip: PeerGossip
    probe: PeerProbe
    compressed: PeerCompressed
    closing: PeerClosing
    keys: PeerKeys
    past_request: PeerPastRequest
    past: PeerPast
    begins: PeerBegins
    call: PeerCall
    def __init__(self, handshake: _Optional[_Union[Handshake, _Mapping]] = ..., event: _Optional[_Union[Event, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., batches: _Optional[_Union[PeerBatches, _Mapping]] = ..., acks: _Optional[_Union[PeerAcks, _Mapping]] = ..., resume: _Optional[_Union[PeerResume, _Mapping]] = ..., gossip: _Optional[_Union[PeerGossip, _Mapping]] = ..., probe: _Optional[_Union[PeerProbe, _Mapping]] = ..., compressed: _Optional[_Union[PeerCompressed, _Mapping]] = ..., closing: _Optional[_Union[PeerClosing, _Mapping]] = ..., keys: _Optional[_Union[PeerKeys, _Mapping]] = ..., past_request: _Optional[_Union[PeerPastRequest, _Mapping]] = ..., past: _Optional[_Union[PeerPast, _Mapping]] = ..., begins: _Optional[_Union[PeerBegins, _Mapping]] = ..., call: _Optional[_Union[PeerCall, _Mapping]] = ...) -> None: ...

class Handshake(_message.Message):
    __slots__ = ("node_id", "protocol_version", "features", "mesh", "epoch", "incarnation", "addresses", "run", "started_ms", "heard", "other")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    MESH_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    protocol_version: int
    features: _containers.RepeatedScalarFieldContainer[str]
    mesh: str
    epoch: int
    incarnation: int
    addresses: _containers.RepeatedScalarFieldContainer[str]
    run: bytes
    started_ms: int
    heard: HeardLife
    other: NodeLife
    def __init__(self, node_id: _Optional[str] = ..., protocol_version: _Optional[int] = ..., features: _Optional[_Iterable[str]] = ..., mesh: _Optional[str] = ..., epoch: _Optional[int] = ..., incarnation: _Optional[int] = ..., addresses: _Optional[_Iterable[str]] = ..., run: _Optional[bytes] = ..., started_ms: _Optional[int] = ..., heard: _Optional[_Union[HeardLife, _Mapping]] = ..., other: _Optional[_Union[NodeLife, _Mapping]] = ...) -> None: ...

class NodeLife(_message.Message):
    __slots__ = ("run", "started_ms", "heard")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    started_ms: int
    heard: HeardLife
    def __init__(self, run: _Optional[bytes] = ..., started_ms: _Optional[int] = ..., heard: _Optional[_Union[HeardLife, _Mapping]] = ...) -> None: ...

class HeardLife(_message.Message):
    __slots__ = ("run", "signature", "chain")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    signature: bytes
    chain: bytes
    def __init__(self, run: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[bytes] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("topic", "offset", "payload", "headers")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    offset: int
    payload: bytes
    headers: _containers.ScalarMap[str, str]
    def __init__(self, topic: _Optional[str] = ..., offset: _Optional[int] = ..., payload: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("topic", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    offset: int
    def __init__(self, topic: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("timestamp", "echo")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ECHO_FIELD_NUMBER: _ClassVar[int]
    timestamp: int
    echo: int
    def __init__(self, timestamp: _Optional[int] = ..., echo: _Optional[int] = ...) -> None: ...

class PeerBatches(_message.Message):
    __slots__ = ("batches",)
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[PeerBatch]
    def __init__(self, batches: _Optional[_Iterable[_Union[PeerBatch, _Mapping]]] = ...) -> None: ...

class PeerBatch(_message.Message):
    __slots__ = ("batch", "keep", "follows", "expired", "latest", "late_us", "lost")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    LATE_US_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    batch: _mesh_pb2.StreamBatch
    keep: bool
    follows: int
    expired: bool
    latest: int
    late_us: int
    lost: bool
    def __init__(self, batch: _Optional[_Union[_mesh_pb2.StreamBatch, _Mapping]] = ..., keep: bool = ..., follows: _Optional[int] = ..., expired: bool = ..., latest: _Optional[int] = ..., late_us: _Optional[int] = ..., lost: bool = ...) -> None: ...

class PeerAcks(_message.Message):
    __slots__ = ("synced", "differing")
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    DIFFERING_FIELD_NUMBER: _ClassVar[int]
    synced: _containers.RepeatedCompositeFieldContainer[_mesh_pb2.StreamPosition]
    differing: _containers.RepeatedCompositeFieldContainer[_mesh_pb2.StreamPosition]
    def __init__(self, synced: _Optional[_Iterable[_Union[_mesh_pb2.StreamPosition, _Mapping]]] = ..., differing: _Optional[_Iterable[_Union[_mesh_pb2.StreamPosition, _Mapping]]] = ...) -> None: ...

class PeerResume(_message.Message):
    __slots__ = ("positions", "origins", "leave", "more", "begins")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[_mesh_pb2.StreamPosition]
    origins: _containers.RepeatedScalarFieldContainer[str]
    leave: _containers.RepeatedScalarFieldContainer[str]
    more: bool
    begins: _containers.RepeatedCompositeFieldContainer[_mesh_pb2.StreamPosition]
    def __init__(self, positions: _Optional[_Iterable[_Union[_mesh_pb2.StreamPosition, _Mapping]]] = ..., origins: _Optional[_Iterable[str]] = ..., leave: _Optional[_Iterable[str]] = ..., more: bool = ..., begins: _Optional[_Iterable[_Union[_mesh_pb2.StreamPosition, _Mapping]]] = ...) -> None: ...

class PeerBegins(_message.Message):
    __slots__ = ("begins",)
    BEGINS_FIELD_NUMBER: _ClassVar[int]
    begins: _containers.RepeatedCompositeFieldContainer[PeerBegin]
    def __init__(self, begins: _Optional[_Iterable[_Union[PeerBegin, _Mapping]]] = ...) -> None: ...

class PeerBegin(_message.Message):
    __slots__ = ("position", "late_us", "latest")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LATE_US_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    position: _mesh_pb2.StreamPosition
    late_us: int
    latest: int
    def __init__(self, position: _Optional[_Union[_mesh_pb2.StreamPosition, _Mapping]] = ..., late_us: _Optional[int] = ..., latest: _Optional[int] = ...) -> None: ...

class PeerPastRequest(_message.Message):
    __slots__ = ("stream", "until", "first", "offset", "since_us")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    stream: _mesh_pb2.StreamRef
    until: int
    first: int
    offset: int
    since_us: int
    def __init__(self, stream: _Optional[_Union[_mesh_pb2.StreamRef, _Mapping]] = ..., until: _Optional[int] = ..., first: _Optional[int] = ..., offset: _Optional[int] = ..., since_us: _Optional[int] = ...) -> None: ...

class PeerPast(_message.Message):
    __slots__ = ("stream", "first", "end", "batches", "late_us", "lost")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    LATE_US_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    stream: _mesh_pb2.StreamRef
    first: int
    end: int
    batches: _containers.RepeatedScalarFieldContainer[bytes]
    late_us: int
    lost: bool
    def __init__(self, stream: _Optional[_Union[_mesh_pb2.StreamRef, _Mapping]] = ..., first: _Optional[int] = ..., end: _Optional[int] = ..., batches: _Optional[_Iterable[bytes]] = ..., late_us: _Optional[int] = ..., lost: bool = ...) -> None: ...

class PeerCall(_message.Message):
    __slots__ = ("source", "target", "number", "hops", "slots", "question", "reply", "refusal", "cancel", "took")
    class Fault(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FAULT_UNSPECIFIED: _ClassVar[PeerCall.Fault]
        FAULT_NO_SERVER: _ClassVar[PeerCall.Fault]
        FAULT_BUSY: _ClassVar[PeerCall.Fault]
        FAULT_UNREACHABLE: _ClassVar[PeerCall.Fault]
        FAULT_LOST: _ClassVar[PeerCall.Fault]
    FAULT_UNSPECIFIED: PeerCall.Fault
    FAULT_NO_SERVER: PeerCall.Fault
    FAULT_BUSY: PeerCall.Fault
    FAULT_UNREACHABLE: PeerCall.Fault
    FAULT_LOST: PeerCall.Fault
    class Question(_message.Message):
        __slots__ = ("topic", "payload", "headers", "timeout_s", "durable")
        class HeadersEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        PAYLOAD_FIELD_NUMBER: _ClassVar[int]
        HEADERS_FIELD_NUMBER: _ClassVar[int]
        TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
        DURABLE_FIELD_NUMBER: _ClassVar[int]
        topic: str
        payload: bytes
        headers: _containers.ScalarMap[str, str]
        timeout_s: float
        durable: bool
        def __init__(self, topic: _Optional[str] = ..., payload: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., timeout_s: _Optional[float] = ..., durable: bool = ...) -> None: ...
    class Reply(_message.Message):
        __slots__ = ("payload", "headers", "last", "failed", "event", "index")
        class HeadersEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        PAYLOAD_FIELD_NUMBER: _ClassVar[int]
        HEADERS_FIELD_NUMBER: _ClassVar[int]
        LAST_FIELD_NUMBER: _ClassVar[int]
        FAILED_FIELD_NUMBER: _ClassVar[int]
        EVENT_FIELD_NUMBER: _ClassVar[int]
        INDEX_FIELD_NUMBER: _ClassVar[int]
        payload: bytes
        headers: _containers.ScalarMap[str, str]
        last: bool
        failed: bool
        event: str
        index: int
        def __init__(self, payload: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., last: bool = ..., failed: bool = ..., event: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...
    class Refusal(_message.Message):
        __slots__ = ("fault", "detail")
        FAULT_FIELD_NUMBER: _ClassVar[int]
        DETAIL_FIELD_NUMBER: _ClassVar[int]
        fault: PeerCall.Fault
        detail: str
        def __init__(self, fault: _Optional[_Union[PeerCall.Fault, str]] = ..., detail: _Optional[str] = ...) -> None: ...
    class Cancel(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Took(_message.Message):
        __slots__ = ("count",)
        COUNT_FIELD_NUMBER: _ClassVar[int]
        count: int
        def __init__(self, count: _Optional[int] = ...) -> None: ...
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    number: int
    hops: int
    slots: int
    question: PeerCall.Question
    reply: PeerCall.Reply
    refusal: PeerCall.Refusal
    cancel: PeerCall.Cancel
    took: PeerCall.Took
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., number: _Optional[int] = ..., hops: _Optional[int] = ..., slots: _Optional[int] = ..., question: _Optional[_Union[PeerCall.Question, _Mapping]] = ..., reply: _Optional[_Union[PeerCall.Reply, _Mapping]] = ..., refusal: _Optional[_Union[PeerCall.Refusal, _Mapping]] = ..., cancel: _Optional[_Union[PeerCall.Cancel, _Mapping]] = ..., took: _Optional[_Union[PeerCall.Took, _Mapping]] = ...) -> None: ...

class PeerGossip(_message.Message):
    __slots__ = ("digests", "states", "reply", "signed")
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    SIGNED_FIELD_NUMBER: _ClassVar[int]
    digests: _containers.RepeatedCompositeFieldContainer[NodeDigest]
    states: _containers.RepeatedCompositeFieldContainer[NodeState]
    reply: bool
    signed: _containers.RepeatedCompositeFieldContainer[SignedState]
    def __init__(self, digests: _Optional[_Iterable[_Union[NodeDigest, _Mapping]]] = ..., states: _Optional[_Iterable[_Union[NodeState, _Mapping]]] = ..., reply: bool = ..., signed: _Optional[_Iterable[_Union[SignedState, _Mapping]]] = ...) -> None: ...

class SignedState(_message.Message):
    __slots__ = ("state", "signature", "chain", "found")
    STATE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    state: bytes
    signature: bytes
    chain: bytes
    found: Liveness
    def __init__(self, state: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[bytes] = ..., found: _Optional[_Union[Liveness, str]] = ...) -> None: ...

class NodeDigest(_message.Message):
    __slots__ = ("node_id", "incarnation", "version", "liveness")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: int
    version: int
    liveness: Liveness
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., version: _Optional[int] = ..., liveness: _Optional[_Union[Liveness, str]] = ...) -> None: ...

class NodeState(_message.Message):
    __slots__ = ("node_id", "incarnation", "version", "liveness", "epoch", "addresses", "neighbours", "interest", "interest_capped", "interest_summary", "interest_since_us", "talked")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LIVENESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    INTEREST_FIELD_NUMBER: _ClassVar[int]
    INTEREST_CAPPED_FIELD_NUMBER: _ClassVar[int]
    INTEREST_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    INTEREST_SINCE_US_FIELD_NUMBER: _ClassVar[int]
    TALKED_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: int
    version: int
    liveness: Liveness
    epoch: int
    addresses: _containers.RepeatedScalarFieldContainer[str]
    neighbours: _containers.RepeatedScalarFieldContainer[str]
    interest: _containers.RepeatedScalarFieldContainer[str]
    interest_capped: bool
    interest_summary: InterestSummary
    interest_since_us: _containers.RepeatedScalarFieldContainer[int]
    talked: int
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[int] = ..., version: _Optional[int] = ..., liveness: _Optional[_Union[Liveness, str]] = ..., epoch: _Optional[int] = ..., addresses: _Optional[_Iterable[str]] = ..., neighbours: _Optional[_Iterable[str]] = ..., interest: _Optional[_Iterable[str]] = ..., interest_capped: bool = ..., interest_summary: _Optional[_Union[InterestSummary, _Mapping]] = ..., interest_since_us: _Optional[_Iterable[int]] = ..., talked: _Optional[int] = ...) -> None: ...

class InterestSummary(_message.Message):
    __slots__ = ("bits", "hashes", "shapes")
    BITS_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    SHAPES_FIELD_NUMBER: _ClassVar[int]
    bits: bytes
    hashes: int
    shapes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, bits: _Optional[bytes] = ..., hashes: _Optional[int] = ..., shapes: _Optional[_Iterable[str]] = ...) -> None: ...

class PeerProbe(_message.Message):
    __slots__ = ("sequence", "ping", "pong", "indirect")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    INDIRECT_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    ping: ProbePing
    pong: ProbePong
    indirect: ProbeIndirect
    def __init__(self, sequence: _Optional[int] = ..., ping: _Optional[_Union[ProbePing, _Mapping]] = ..., pong: _Optional[_Union[ProbePong, _Mapping]] = ..., indirect: _Optional[_Union[ProbeIndirect, _Mapping]] = ...) -> None: ...

class ProbePing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ProbePong(_message.Message):
    __slots__ = ("node_id", "incarnation")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    incarnation: int
    def __init__(self, node_id: _Optional[str] = ..., incarnation: _Optional[int] = ...) -> None: ...

class ProbeIndirect(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: str
    def __init__(self, target: _Optional[str] = ...) -> None: ...

class PeerKeys(_message.Message):
    __slots__ = ("summary", "buckets", "statements", "chains", "asked", "took")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    STATEMENTS_FIELD_NUMBER: _ClassVar[int]
    CHAINS_FIELD_NUMBER: _ClassVar[int]
    ASKED_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    summary: bytes
    buckets: bytes
    statements: _containers.RepeatedCompositeFieldContainer[KeyStatement]
    chains: _containers.RepeatedScalarFieldContainer[bytes]
    asked: bytes
    took: bool
    def __init__(self, summary: _Optional[bytes] = ..., buckets: _Optional[bytes] = ..., statements: _Optional[_Iterable[_Union[KeyStatement, _Mapping]]] = ..., chains: _Optional[_Iterable[bytes]] = ..., asked: _Optional[bytes] = ..., took: bool = ...) -> None: ...

class KeyStatement(_message.Message):
    __slots__ = ("text", "signature", "chain")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    text: bytes
    signature: bytes
    chain: int
    def __init__(self, text: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., chain: _Optional[int] = ...) -> None: ...

class PeerCompressed(_message.Message):
    __slots__ = ("codec", "plain_bytes", "data")
    CODEC_FIELD_NUMBER: _ClassVar[int]
    PLAIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    codec: _mesh_pb2.Codec
    plain_bytes: int
    data: bytes
    def __init__(self, codec: _Optional[_Union[_mesh_pb2.Codec, str]] = ..., plain_bytes: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class PeerClosing(_message.Message):
    __slots__ = ("reason", "leaving")
    REASON_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    reason: str
    leaving: bool
    def __init__(self, reason: _Optional[str] = ..., leaving: bool = ...) -> None: ...
