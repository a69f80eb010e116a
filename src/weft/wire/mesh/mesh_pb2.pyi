from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Codec(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODEC_NONE: _ClassVar[Codec]
    CODEC_LZ4: _ClassVar[Codec]
    CODEC_ZSTD: _ClassVar[Codec]

class ErrorCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_UNSPECIFIED: _ClassVar[ErrorCode]
    ERROR_BAD_REQUEST: _ClassVar[ErrorCode]
    ERROR_BAD_BATCH: _ClassVar[ErrorCode]
    ERROR_NOT_ALLOWED: _ClassVar[ErrorCode]
    ERROR_UNAUTHENTICATED: _ClassVar[ErrorCode]
    ERROR_POSITION_EXPIRED: _ClassVar[ErrorCode]
    ERROR_POSITION_UNKNOWN: _ClassVar[ErrorCode]
    ERROR_TOO_LARGE: _ClassVar[ErrorCode]
    ERROR_BUSY: _ClassVar[ErrorCode]
    ERROR_DISK_FULL: _ClassVar[ErrorCode]
    ERROR_SHUTTING_DOWN: _ClassVar[ErrorCode]
    ERROR_OUT_OF_SEQUENCE: _ClassVar[ErrorCode]
    ERROR_COPIES: _ClassVar[ErrorCode]
    ERROR_CORRUPT: _ClassVar[ErrorCode]
    ERROR_SEQUENCE_REUSED: _ClassVar[ErrorCode]
    ERROR_CONFLICT: _ClassVar[ErrorCode]
    ERROR_NOT_OWNER: _ClassVar[ErrorCode]
    ERROR_SCHEMA_BROKEN: _ClassVar[ErrorCode]
    ERROR_SCHEMA_INCOMPATIBLE: _ClassVar[ErrorCode]
    ERROR_HISTORY_AWAY: _ClassVar[ErrorCode]
    ERROR_BEHIND_REFUSED: _ClassVar[ErrorCode]
    ERROR_NO_SERVER: _ClassVar[ErrorCode]
    ERROR_SERVER_LOST: _ClassVar[ErrorCode]
    ERROR_NO_REPLY: _ClassVar[ErrorCode]
    ERROR_SERVER_FAILED: _ClassVar[ErrorCode]

class KvState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KV_PUT: _ClassVar[KvState]
    KV_DELETED: _ClassVar[KvState]
    KV_EXPIRED: _ClassVar[KvState]
CODEC_NONE: Codec
CODEC_LZ4: Codec
CODEC_ZSTD: Codec
ERROR_UNSPECIFIED: ErrorCode
ERROR_BAD_REQUEST: ErrorCode
ERROR_BAD_BATCH: ErrorCode
ERROR_NOT_ALLOWED: ErrorCode
ERROR_UNAUTHENTICATED: ErrorCode
ERROR_POSITION_EXPIRED: ErrorCode
ERROR_POSITION_UNKNOWN: ErrorCode
ERROR_TOO_LARGE: ErrorCode
ERROR_BUSY: ErrorCode
ERROR_DISK_FULL: ErrorCode
ERROR_SHUTTING_DOWN: ErrorCode
ERROR_OUT_OF_SEQUENCE: ErrorCode
ERROR_COPIES: ErrorCode
ERROR_CORRUPT: ErrorCode
ERROR_SEQUENCE_REUSED: ErrorCode
ERROR_CONFLICT: ErrorCode
ERROR_NOT_OWNER: ErrorCode
ERROR_SCHEMA_BROKEN: ErrorCode
ERROR_SCHEMA_INCOMPATIBLE: ErrorCode
ERROR_HISTORY_AWAY: ErrorCode
ERROR_BEHIND_REFUSED: ErrorCode
ERROR_NO_SERVER: ErrorCode
ERROR_SERVER_LOST: ErrorCode
ERROR_NO_REPLY: ErrorCode
ERROR_SERVER_FAILED: ErrorCode
KV_PUT: KvState
KV_DELETED: KvState
KV_EXPIRED: KvState

class StreamRef(_message.Message):
    __slots__ = ("topic", "origin", "epoch", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    origin: str
    epoch: int
    partition: int
    def __init__(self, topic: _Optional[str] = ..., origin: _Optional[str] = ..., epoch: _Optional[int] = ..., partition: _Optional[int] = ...) -> None: ...

class StreamPosition(_message.Message):
    __slots__ = ("stream", "next_offset")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    stream: StreamRef
    next_offset: int
    def __init__(self, stream: _Optional[_Union[StreamRef, _Mapping]] = ..., next_offset: _Optional[int] = ...) -> None: ...

class StreamBatch(_message.Message):
    __slots__ = ("stream", "batch", "first_offset", "tries")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    stream: StreamRef
    batch: bytes
    first_offset: int
    tries: int
    def __init__(self, stream: _Optional[_Union[StreamRef, _Mapping]] = ..., batch: _Optional[bytes] = ..., first_offset: _Optional[int] = ..., tries: _Optional[int] = ...) -> None: ...

class StreamInfo(_message.Message):
    __slots__ = ("stream", "earliest_offset", "latest_offset", "bytes", "first_timestamp_us", "last_timestamp_us", "late_us")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LATEST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FIRST_TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    LAST_TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    LATE_US_FIELD_NUMBER: _ClassVar[int]
    stream: StreamRef
    earliest_offset: int
    latest_offset: int
    bytes: int
    first_timestamp_us: int
    last_timestamp_us: int
    late_us: int
    def __init__(self, stream: _Optional[_Union[StreamRef, _Mapping]] = ..., earliest_offset: _Optional[int] = ..., latest_offset: _Optional[int] = ..., bytes: _Optional[int] = ..., first_timestamp_us: _Optional[int] = ..., last_timestamp_us: _Optional[int] = ..., late_us: _Optional[int] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "facts")
    class FactsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    code: ErrorCode
    message: str
    facts: _containers.ScalarMap[str, str]
    def __init__(self, code: _Optional[_Union[ErrorCode, str]] = ..., message: _Optional[str] = ..., facts: _Optional[_Mapping[str, str]] = ...) -> None: ...

class CallsRequest(_message.Message):
    __slots__ = ("open", "ask", "cancel", "took", "serve", "stop", "answer")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    SERVE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    open: CallsOpen
    ask: CallsAsk
    cancel: CallsCancel
    took: CallsTook
    serve: CallsServe
    stop: CallsStop
    answer: CallsAnswer
    def __init__(self, open: _Optional[_Union[CallsOpen, _Mapping]] = ..., ask: _Optional[_Union[CallsAsk, _Mapping]] = ..., cancel: _Optional[_Union[CallsCancel, _Mapping]] = ..., took: _Optional[_Union[CallsTook, _Mapping]] = ..., serve: _Optional[_Union[CallsServe, _Mapping]] = ..., stop: _Optional[_Union[CallsStop, _Mapping]] = ..., answer: _Optional[_Union[CallsAnswer, _Mapping]] = ...) -> None: ...

class CallsReply(_message.Message):
    __slots__ = ("opened", "answer", "failed", "serving", "handed", "over", "took")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    HANDED_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    TOOK_FIELD_NUMBER: _ClassVar[int]
    opened: CallsOpened
    answer: CallsAnswer
    failed: CallsFailed
    serving: CallsServing
    handed: CallsHanded
    over: CallsCancel
    took: CallsTook
    def __init__(self, opened: _Optional[_Union[CallsOpened, _Mapping]] = ..., answer: _Optional[_Union[CallsAnswer, _Mapping]] = ..., failed: _Optional[_Union[CallsFailed, _Mapping]] = ..., serving: _Optional[_Union[CallsServing, _Mapping]] = ..., handed: _Optional[_Union[CallsHanded, _Mapping]] = ..., over: _Optional[_Union[CallsCancel, _Mapping]] = ..., took: _Optional[_Union[CallsTook, _Mapping]] = ...) -> None: ...

class CallsOpen(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CallsOpened(_message.Message):
    __slots__ = ("node_id", "addresses", "payload_bytes_max", "window")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    payload_bytes_max: int
    window: int
    def __init__(self, node_id: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ..., payload_bytes_max: _Optional[int] = ..., window: _Optional[int] = ...) -> None: ...

class CallsAsk(_message.Message):
    __slots__ = ("number", "topic", "payload", "headers", "timeout_s", "durable", "probe")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    number: int
    topic: str
    payload: bytes
    headers: _containers.ScalarMap[str, str]
    timeout_s: float
    durable: bool
    probe: bool
    def __init__(self, number: _Optional[int] = ..., topic: _Optional[str] = ..., payload: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., timeout_s: _Optional[float] = ..., durable: bool = ..., probe: bool = ...) -> None: ...

class CallsAnswer(_message.Message):
    __slots__ = ("number", "payload", "headers", "last", "failed", "event")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    number: int
    payload: bytes
    headers: _containers.ScalarMap[str, str]
    last: bool
    failed: bool
    event: str
    def __init__(self, number: _Optional[int] = ..., payload: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., last: bool = ..., failed: bool = ..., event: _Optional[str] = ...) -> None: ...

class CallsFailed(_message.Message):
    __slots__ = ("number", "error")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    number: int
    error: Error
    def __init__(self, number: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class CallsServe(_message.Message):
    __slots__ = ("number", "pattern", "slots")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    number: int
    pattern: str
    slots: int
    def __init__(self, number: _Optional[int] = ..., pattern: _Optional[str] = ..., slots: _Optional[int] = ...) -> None: ...

class CallsServing(_message.Message):
    __slots__ = ("number", "error")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    number: int
    error: Error
    def __init__(self, number: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class CallsStop(_message.Message):
    __slots__ = ("number", "gone")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    number: int
    gone: bool
    def __init__(self, number: _Optional[int] = ..., gone: bool = ...) -> None: ...

class CallsHanded(_message.Message):
    __slots__ = ("server", "number", "topic", "payload", "headers", "timeout_s", "durable")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SERVER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    server: int
    number: int
    topic: str
    payload: bytes
    headers: _containers.ScalarMap[str, str]
    timeout_s: float
    durable: bool
    def __init__(self, server: _Optional[int] = ..., number: _Optional[int] = ..., topic: _Optional[str] = ..., payload: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., timeout_s: _Optional[float] = ..., durable: bool = ...) -> None: ...

class CallsCancel(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class CallsTook(_message.Message):
    __slots__ = ("number", "count")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    number: int
    count: int
    def __init__(self, number: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class KvItem(_message.Message):
    __slots__ = ("key", "state", "time", "node", "expires_ms", "author", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    state: KvState
    time: int
    node: str
    expires_ms: int
    author: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., state: _Optional[_Union[KvState, str]] = ..., time: _Optional[int] = ..., node: _Optional[str] = ..., expires_ms: _Optional[int] = ..., author: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class KvGetRequest(_message.Message):
    __slots__ = ("bucket", "key", "at_least")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    bucket: str
    key: str
    at_least: str
    def __init__(self, bucket: _Optional[str] = ..., key: _Optional[str] = ..., at_least: _Optional[str] = ...) -> None: ...

class KvGetReply(_message.Message):
    __slots__ = ("item", "node_id")
    ITEM_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    item: KvItem
    node_id: str
    def __init__(self, item: _Optional[_Union[KvItem, _Mapping]] = ..., node_id: _Optional[str] = ...) -> None: ...

class KvWriteRequest(_message.Message):
    __slots__ = ("bucket", "key", "deletes", "value", "ttl_s", "if_revision", "copies")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TTL_S_FIELD_NUMBER: _ClassVar[int]
    IF_REVISION_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    bucket: str
    key: str
    deletes: bool
    value: bytes
    ttl_s: float
    if_revision: str
    copies: int
    def __init__(self, bucket: _Optional[str] = ..., key: _Optional[str] = ..., deletes: bool = ..., value: _Optional[bytes] = ..., ttl_s: _Optional[float] = ..., if_revision: _Optional[str] = ..., copies: _Optional[int] = ...) -> None: ...

class KvWriteReply(_message.Message):
    __slots__ = ("time", "node")
    TIME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    time: int
    node: str
    def __init__(self, time: _Optional[int] = ..., node: _Optional[str] = ...) -> None: ...

class KvListRequest(_message.Message):
    __slots__ = ("bucket", "pattern", "token", "without_values")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_VALUES_FIELD_NUMBER: _ClassVar[int]
    bucket: str
    pattern: str
    token: bytes
    without_values: bool
    def __init__(self, bucket: _Optional[str] = ..., pattern: _Optional[str] = ..., token: _Optional[bytes] = ..., without_values: bool = ...) -> None: ...

class KvListReply(_message.Message):
    __slots__ = ("items", "next_page", "node_id")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[KvItem]
    next_page: bytes
    node_id: str
    def __init__(self, items: _Optional[_Iterable[_Union[KvItem, _Mapping]]] = ..., next_page: _Optional[bytes] = ..., node_id: _Optional[str] = ...) -> None: ...

class KvHistoryRequest(_message.Message):
    __slots__ = ("bucket", "key", "page")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    bucket: str
    key: str
    page: Page
    def __init__(self, bucket: _Optional[str] = ..., key: _Optional[str] = ..., page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class KvHistoryReply(_message.Message):
    __slots__ = ("items", "next_page", "node_id")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[KvItem]
    next_page: bytes
    node_id: str
    def __init__(self, items: _Optional[_Iterable[_Union[KvItem, _Mapping]]] = ..., next_page: _Optional[bytes] = ..., node_id: _Optional[str] = ...) -> None: ...

class KvWatchRequest(_message.Message):
    __slots__ = ("bucket", "pattern", "snapshot", "gone")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    bucket: str
    pattern: str
    snapshot: bool
    gone: bool
    def __init__(self, bucket: _Optional[str] = ..., pattern: _Optional[str] = ..., snapshot: bool = ..., gone: bool = ...) -> None: ...

class KvWatchReply(_message.Message):
    __slots__ = ("items", "node_id")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[KvItem]
    node_id: str
    def __init__(self, items: _Optional[_Iterable[_Union[KvItem, _Mapping]]] = ..., node_id: _Optional[str] = ...) -> None: ...

class KvBucketsRequest(_message.Message):
    __slots__ = ("page",)
    PAGE_FIELD_NUMBER: _ClassVar[int]
    page: Page
    def __init__(self, page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class KvBucketsReply(_message.Message):
    __slots__ = ("buckets", "next_page", "node_id")
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    buckets: _containers.RepeatedCompositeFieldContainer[KvBucket]
    next_page: bytes
    node_id: str
    def __init__(self, buckets: _Optional[_Iterable[_Union[KvBucket, _Mapping]]] = ..., next_page: _Optional[bytes] = ..., node_id: _Optional[str] = ...) -> None: ...

class KvBucket(_message.Message):
    __slots__ = ("bucket", "keys", "owner", "history")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    bucket: str
    keys: int
    owner: str
    history: int
    def __init__(self, bucket: _Optional[str] = ..., keys: _Optional[int] = ..., owner: _Optional[str] = ..., history: _Optional[int] = ...) -> None: ...

class KvConfigureRequest(_message.Message):
    __slots__ = ("bucket", "owner", "history", "force")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    bucket: str
    owner: str
    history: int
    force: bool
    def __init__(self, bucket: _Optional[str] = ..., owner: _Optional[str] = ..., history: _Optional[int] = ..., force: bool = ...) -> None: ...

class KvConfigureReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("open", "batch", "batches", "events")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    open: PublishOpen
    batch: PublishBatch
    batches: PublishBatches
    events: PublishEvents
    def __init__(self, open: _Optional[_Union[PublishOpen, _Mapping]] = ..., batch: _Optional[_Union[PublishBatch, _Mapping]] = ..., batches: _Optional[_Union[PublishBatches, _Mapping]] = ..., events: _Optional[_Union[PublishEvents, _Mapping]] = ...) -> None: ...

class PublishBatches(_message.Message):
    __slots__ = ("batches",)
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[PublishBatch]
    def __init__(self, batches: _Optional[_Iterable[_Union[PublishBatch, _Mapping]]] = ...) -> None: ...

class PublishOpen(_message.Message):
    __slots__ = ("producer_id",)
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    producer_id: bytes
    def __init__(self, producer_id: _Optional[bytes] = ...) -> None: ...

class PublishBatch(_message.Message):
    __slots__ = ("request", "topic", "partition", "batch", "copies", "later", "after")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    request: int
    topic: str
    partition: int
    batch: bytes
    copies: int
    later: bool
    after: int
    def __init__(self, request: _Optional[int] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., batch: _Optional[bytes] = ..., copies: _Optional[int] = ..., later: bool = ..., after: _Optional[int] = ...) -> None: ...

class PublishEvents(_message.Message):
    __slots__ = ("request", "topic", "partition", "events", "copies", "sequence", "later", "after")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    request: int
    topic: str
    partition: int
    events: _containers.RepeatedCompositeFieldContainer[PlainEvent]
    copies: int
    sequence: int
    later: bool
    after: int
    def __init__(self, request: _Optional[int] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., events: _Optional[_Iterable[_Union[PlainEvent, _Mapping]]] = ..., copies: _Optional[int] = ..., sequence: _Optional[int] = ..., later: bool = ..., after: _Optional[int] = ...) -> None: ...

class PlainEvent(_message.Message):
    __slots__ = ("payload", "key", "headers", "timestamp_us", "offset")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    key: bytes
    headers: _containers.ScalarMap[str, str]
    timestamp_us: int
    offset: int
    def __init__(self, payload: _Optional[bytes] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., timestamp_us: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class PublishReply(_message.Message):
    __slots__ = ("opened", "receipts", "refused")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    opened: PublishOpened
    receipts: Receipts
    refused: PublishRefused
    def __init__(self, opened: _Optional[_Union[PublishOpened, _Mapping]] = ..., receipts: _Optional[_Union[Receipts, _Mapping]] = ..., refused: _Optional[_Union[PublishRefused, _Mapping]] = ...) -> None: ...

class PublishOpened(_message.Message):
    __slots__ = ("node_id", "epoch", "batch_bytes_max", "addresses", "now_us")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BATCH_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    epoch: int
    batch_bytes_max: int
    addresses: _containers.RepeatedScalarFieldContainer[str]
    now_us: int
    def __init__(self, node_id: _Optional[str] = ..., epoch: _Optional[int] = ..., batch_bytes_max: _Optional[int] = ..., addresses: _Optional[_Iterable[str]] = ..., now_us: _Optional[int] = ...) -> None: ...

class Receipts(_message.Message):
    __slots__ = ("receipts",)
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    receipts: _containers.RepeatedCompositeFieldContainer[Receipt]
    def __init__(self, receipts: _Optional[_Iterable[_Union[Receipt, _Mapping]]] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("request", "stream", "first_offset", "count", "copies", "repeated")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    request: int
    stream: StreamRef
    first_offset: int
    count: int
    copies: int
    repeated: bool
    def __init__(self, request: _Optional[int] = ..., stream: _Optional[_Union[StreamRef, _Mapping]] = ..., first_offset: _Optional[int] = ..., count: _Optional[int] = ..., copies: _Optional[int] = ..., repeated: bool = ...) -> None: ...

class PublishRefused(_message.Message):
    __slots__ = ("request", "error")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    request: int
    error: Error
    def __init__(self, request: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("open", "credit", "handled", "positions", "settled")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    HANDLED_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    open: SubscribeOpen
    credit: Credit
    handled: Handled
    positions: Positions
    settled: Settled
    def __init__(self, open: _Optional[_Union[SubscribeOpen, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., handled: _Optional[_Union[Handled, _Mapping]] = ..., positions: _Optional[_Union[Positions, _Mapping]] = ..., settled: _Optional[_Union[Settled, _Mapping]] = ...) -> None: ...

class SubscribeOpen(_message.Message):
    __slots__ = ("pattern", "group", "member", "start", "credit_bytes", "paged", "position_messages", "window", "policy", "plain")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    PAGED_FIELD_NUMBER: _ClassVar[int]
    POSITION_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    PLAIN_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    group: str
    member: str
    start: Start
    credit_bytes: int
    paged: bool
    position_messages: int
    window: int
    policy: GroupPolicy
    plain: bool
    def __init__(self, pattern: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., credit_bytes: _Optional[int] = ..., paged: bool = ..., position_messages: _Optional[int] = ..., window: _Optional[int] = ..., policy: _Optional[_Union[GroupPolicy, _Mapping]] = ..., plain: bool = ...) -> None: ...

class GroupPolicy(_message.Message):
    __slots__ = ("max_deliveries", "retry_s_min", "retry_s_max", "set_aside", "dead_letter")
    MAX_DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    RETRY_S_MIN_FIELD_NUMBER: _ClassVar[int]
    RETRY_S_MAX_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    max_deliveries: int
    retry_s_min: float
    retry_s_max: float
    set_aside: bool
    dead_letter: str
    def __init__(self, max_deliveries: _Optional[int] = ..., retry_s_min: _Optional[float] = ..., retry_s_max: _Optional[float] = ..., set_aside: bool = ..., dead_letter: _Optional[str] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("edge", "timestamp_us", "positions", "otherwise_timestamp_us")
    class Edge(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        EDGE_UNSPECIFIED: _ClassVar[Start.Edge]
        EDGE_EARLIEST: _ClassVar[Start.Edge]
        EDGE_LATEST: _ClassVar[Start.Edge]
    EDGE_UNSPECIFIED: Start.Edge
    EDGE_EARLIEST: Start.Edge
    EDGE_LATEST: Start.Edge
    EDGE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    OTHERWISE_TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    edge: Start.Edge
    timestamp_us: int
    positions: Positions
    otherwise_timestamp_us: int
    def __init__(self, edge: _Optional[_Union[Start.Edge, str]] = ..., timestamp_us: _Optional[int] = ..., positions: _Optional[_Union[Positions, _Mapping]] = ..., otherwise_timestamp_us: _Optional[int] = ...) -> None: ...

class Positions(_message.Message):
    __slots__ = ("positions",)
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[StreamPosition]
    def __init__(self, positions: _Optional[_Iterable[_Union[StreamPosition, _Mapping]]] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("bytes",)
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    def __init__(self, bytes: _Optional[int] = ...) -> None: ...

class Handled(_message.Message):
    __slots__ = ("positions", "generation")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[StreamPosition]
    generation: int
    def __init__(self, positions: _Optional[_Iterable[_Union[StreamPosition, _Mapping]]] = ..., generation: _Optional[int] = ...) -> None: ...

class Settled(_message.Message):
    __slots__ = ("acks", "nacks", "generation")
    ACKS_FIELD_NUMBER: _ClassVar[int]
    NACKS_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    acks: _containers.RepeatedCompositeFieldContainer[AckedRange]
    nacks: _containers.RepeatedCompositeFieldContainer[Nack]
    generation: int
    def __init__(self, acks: _Optional[_Iterable[_Union[AckedRange, _Mapping]]] = ..., nacks: _Optional[_Iterable[_Union[Nack, _Mapping]]] = ..., generation: _Optional[int] = ...) -> None: ...

class AckedRange(_message.Message):
    __slots__ = ("stream", "offsets")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    stream: StreamRef
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, stream: _Optional[_Union[StreamRef, _Mapping]] = ..., offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class Nack(_message.Message):
    __slots__ = ("stream", "offset", "delay_s", "reason")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELAY_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    stream: StreamRef
    offset: int
    delay_s: float
    reason: str
    def __init__(self, stream: _Optional[_Union[StreamRef, _Mapping]] = ..., offset: _Optional[int] = ..., delay_s: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class SubscribeReply(_message.Message):
    __slots__ = ("opened", "delivery", "assignment", "error", "withdrawn")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    opened: SubscribeOpened
    delivery: Delivery
    assignment: Assignment
    error: Error
    withdrawn: Withdrawn
    def __init__(self, opened: _Optional[_Union[SubscribeOpened, _Mapping]] = ..., delivery: _Optional[_Union[Delivery, _Mapping]] = ..., assignment: _Optional[_Union[Assignment, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., withdrawn: _Optional[_Union[Withdrawn, _Mapping]] = ...) -> None: ...

class Withdrawn(_message.Message):
    __slots__ = ("stream", "offset", "rest")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REST_FIELD_NUMBER: _ClassVar[int]
    stream: StreamRef
    offset: int
    rest: bool
    def __init__(self, stream: _Optional[_Union[StreamRef, _Mapping]] = ..., offset: _Optional[int] = ..., rest: bool = ...) -> None: ...

class SubscribeOpened(_message.Message):
    __slots__ = ("node_id", "positions", "epoch", "addresses", "more")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    positions: Positions
    epoch: int
    addresses: _containers.RepeatedScalarFieldContainer[str]
    more: bool
    def __init__(self, node_id: _Optional[str] = ..., positions: _Optional[_Union[Positions, _Mapping]] = ..., epoch: _Optional[int] = ..., addresses: _Optional[_Iterable[str]] = ..., more: bool = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("batches", "events")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[StreamBatch]
    events: StreamEvents
    def __init__(self, batches: _Optional[_Iterable[_Union[StreamBatch, _Mapping]]] = ..., events: _Optional[_Union[StreamEvents, _Mapping]] = ...) -> None: ...

class StreamEvents(_message.Message):
    __slots__ = ("stream", "events", "tries", "credit_bytes")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    stream: StreamRef
    events: _containers.RepeatedCompositeFieldContainer[PlainEvent]
    tries: int
    credit_bytes: int
    def __init__(self, stream: _Optional[_Union[StreamRef, _Mapping]] = ..., events: _Optional[_Iterable[_Union[PlainEvent, _Mapping]]] = ..., tries: _Optional[int] = ..., credit_bytes: _Optional[int] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("generation", "streams")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    generation: int
    streams: _containers.RepeatedCompositeFieldContainer[StreamPosition]
    def __init__(self, generation: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[StreamPosition, _Mapping]]] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("stream", "first_offset", "end_offset", "bytes_max", "columns", "more")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    stream: StreamRef
    first_offset: int
    end_offset: int
    bytes_max: int
    columns: _containers.RepeatedScalarFieldContainer[str]
    more: _containers.RepeatedCompositeFieldContainer[FetchRange]
    def __init__(self, stream: _Optional[_Union[StreamRef, _Mapping]] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., bytes_max: _Optional[int] = ..., columns: _Optional[_Iterable[str]] = ..., more: _Optional[_Iterable[_Union[FetchRange, _Mapping]]] = ...) -> None: ...

class FetchRange(_message.Message):
    __slots__ = ("stream", "first_offset", "end_offset")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    stream: StreamRef
    first_offset: int
    end_offset: int
    def __init__(self, stream: _Optional[_Union[StreamRef, _Mapping]] = ..., first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...

class FetchReply(_message.Message):
    __slots__ = ("fetched", "error", "range")
    FETCHED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    fetched: FetchedBatches
    error: Error
    range: int
    def __init__(self, fetched: _Optional[_Union[FetchedBatches, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., range: _Optional[int] = ...) -> None: ...

class FetchedBatches(_message.Message):
    __slots__ = ("batches", "first_offsets", "ranges", "ranges_done")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    RANGES_DONE_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedScalarFieldContainer[bytes]
    first_offsets: _containers.RepeatedScalarFieldContainer[int]
    ranges: _containers.RepeatedScalarFieldContainer[int]
    ranges_done: int
    def __init__(self, batches: _Optional[_Iterable[bytes]] = ..., first_offsets: _Optional[_Iterable[int]] = ..., ranges: _Optional[_Iterable[int]] = ..., ranges_done: _Optional[int] = ...) -> None: ...

class PositionsRequest(_message.Message):
    __slots__ = ("pattern", "group", "timestamp_us", "page", "history")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    group: str
    timestamp_us: int
    page: Page
    history: bool
    def __init__(self, pattern: _Optional[str] = ..., group: _Optional[str] = ..., timestamp_us: _Optional[int] = ..., page: _Optional[_Union[Page, _Mapping]] = ..., history: bool = ...) -> None: ...

class Page(_message.Message):
    __slots__ = ("limit", "token")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    limit: int
    token: bytes
    def __init__(self, limit: _Optional[int] = ..., token: _Optional[bytes] = ...) -> None: ...

class PositionsReply(_message.Message):
    __slots__ = ("streams", "node_id", "members", "next_page", "history_problem")
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedCompositeFieldContainer[PositionsOfStream]
    node_id: str
    members: _containers.RepeatedCompositeFieldContainer[Member]
    next_page: bytes
    history_problem: str
    def __init__(self, streams: _Optional[_Iterable[_Union[PositionsOfStream, _Mapping]]] = ..., node_id: _Optional[str] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., next_page: _Optional[bytes] = ..., history_problem: _Optional[str] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("node_id", "addresses")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node_id: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class PositionsOfStream(_message.Message):
    __slots__ = ("info", "group_offset", "timestamp_offset", "history", "only_history")
    INFO_FIELD_NUMBER: _ClassVar[int]
    GROUP_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    ONLY_HISTORY_FIELD_NUMBER: _ClassVar[int]
    info: StreamInfo
    group_offset: int
    timestamp_offset: int
    history: _containers.RepeatedScalarFieldContainer[int]
    only_history: bool
    def __init__(self, info: _Optional[_Union[StreamInfo, _Mapping]] = ..., group_offset: _Optional[int] = ..., timestamp_offset: _Optional[int] = ..., history: _Optional[_Iterable[int]] = ..., only_history: bool = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("group", "positions")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    group: str
    positions: _containers.RepeatedCompositeFieldContainer[StreamPosition]
    def __init__(self, group: _Optional[str] = ..., positions: _Optional[_Iterable[_Union[StreamPosition, _Mapping]]] = ...) -> None: ...

class CommitReply(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: Error
    def __init__(self, error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class DropGroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class DropGroupReply(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: Error
    def __init__(self, error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class TopicsRequest(_message.Message):
    __slots__ = ("pattern", "page", "history")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    page: Page
    history: bool
    def __init__(self, pattern: _Optional[str] = ..., page: _Optional[_Union[Page, _Mapping]] = ..., history: bool = ...) -> None: ...

class TopicsReply(_message.Message):
    __slots__ = ("topics", "next_page", "node_id", "history_problem")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    HISTORY_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[TopicInfo]
    next_page: bytes
    node_id: str
    history_problem: str
    def __init__(self, topics: _Optional[_Iterable[_Union[TopicInfo, _Mapping]]] = ..., next_page: _Optional[bytes] = ..., node_id: _Optional[str] = ..., history_problem: _Optional[str] = ...) -> None: ...

class TopicInfo(_message.Message):
    __slots__ = ("topic", "streams", "events", "bytes", "last_timestamp_us", "published", "history_events", "history_since_us")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LAST_TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    HISTORY_EVENTS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_SINCE_US_FIELD_NUMBER: _ClassVar[int]
    topic: str
    streams: int
    events: int
    bytes: int
    last_timestamp_us: int
    published: int
    history_events: int
    history_since_us: int
    def __init__(self, topic: _Optional[str] = ..., streams: _Optional[int] = ..., events: _Optional[int] = ..., bytes: _Optional[int] = ..., last_timestamp_us: _Optional[int] = ..., published: _Optional[int] = ..., history_events: _Optional[int] = ..., history_since_us: _Optional[int] = ...) -> None: ...

class WhoamiRequest(_message.Message):
    __slots__ = ("publish_to",)
    PUBLISH_TO_FIELD_NUMBER: _ClassVar[int]
    publish_to: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, publish_to: _Optional[_Iterable[str]] = ...) -> None: ...

class WhoamiReply(_message.Message):
    __slots__ = ("who", "owner")
    WHO_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    who: str
    owner: str
    def __init__(self, who: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class TraceRequest(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: StreamPosition
    def __init__(self, event: _Optional[_Union[StreamPosition, _Mapping]] = ...) -> None: ...

class TraceReply(_message.Message):
    __slots__ = ("node_id", "members", "kept", "timestamp_us", "traceparent", "stored", "sources", "acked_by", "deliveries", "groups", "since_us")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    ACKED_BY_FIELD_NUMBER: _ClassVar[int]
    DELIVERIES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    members: _containers.RepeatedCompositeFieldContainer[Member]
    kept: bool
    timestamp_us: int
    traceparent: str
    stored: TraceMoment
    sources: _containers.RepeatedScalarFieldContainer[str]
    acked_by: _containers.RepeatedScalarFieldContainer[str]
    deliveries: _containers.RepeatedCompositeFieldContainer[TraceDelivery]
    groups: _containers.RepeatedCompositeFieldContainer[TraceGroup]
    since_us: int
    def __init__(self, node_id: _Optional[str] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., kept: bool = ..., timestamp_us: _Optional[int] = ..., traceparent: _Optional[str] = ..., stored: _Optional[_Union[TraceMoment, _Mapping]] = ..., sources: _Optional[_Iterable[str]] = ..., acked_by: _Optional[_Iterable[str]] = ..., deliveries: _Optional[_Iterable[_Union[TraceDelivery, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[TraceGroup, _Mapping]]] = ..., since_us: _Optional[int] = ...) -> None: ...

class TraceMoment(_message.Message):
    __slots__ = ("at_us", "not_before_us")
    AT_US_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_US_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    not_before_us: int
    def __init__(self, at_us: _Optional[int] = ..., not_before_us: _Optional[int] = ...) -> None: ...

class TraceDelivery(_message.Message):
    __slots__ = ("pattern", "group", "member", "when")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    group: str
    member: str
    when: TraceMoment
    def __init__(self, pattern: _Optional[str] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., when: _Optional[_Union[TraceMoment, _Mapping]] = ...) -> None: ...

class TraceGroup(_message.Message):
    __slots__ = ("group", "handled")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    HANDLED_FIELD_NUMBER: _ClassVar[int]
    group: str
    handled: bool
    def __init__(self, group: _Optional[str] = ..., handled: bool = ...) -> None: ...

class DeadLettersRequest(_message.Message):
    __slots__ = ("group", "page", "event")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    group: str
    page: Page
    event: str
    def __init__(self, group: _Optional[str] = ..., page: _Optional[_Union[Page, _Mapping]] = ..., event: _Optional[str] = ...) -> None: ...

class DeadLettersReply(_message.Message):
    __slots__ = ("letters", "next_page", "node_id")
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    next_page: bytes
    node_id: str
    def __init__(self, letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., next_page: _Optional[bytes] = ..., node_id: _Optional[str] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("event", "tries", "reason", "died_us", "timestamp_us", "key", "headers", "payload", "lost", "left_out")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DIED_US_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_US_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    event: str
    tries: int
    reason: str
    died_us: int
    timestamp_us: int
    key: bytes
    headers: _containers.ScalarMap[str, str]
    payload: bytes
    lost: bool
    left_out: str
    def __init__(self, event: _Optional[str] = ..., tries: _Optional[int] = ..., reason: _Optional[str] = ..., died_us: _Optional[int] = ..., timestamp_us: _Optional[int] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., payload: _Optional[bytes] = ..., lost: bool = ..., left_out: _Optional[str] = ...) -> None: ...

class DropDeadLettersRequest(_message.Message):
    __slots__ = ("group", "events")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    group: str
    events: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., events: _Optional[_Iterable[str]] = ...) -> None: ...

class DropDeadLettersReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LaterRequest(_message.Message):
    __slots__ = ("page",)
    PAGE_FIELD_NUMBER: _ClassVar[int]
    page: Page
    def __init__(self, page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class LaterReply(_message.Message):
    __slots__ = ("events", "next_page", "node_id", "addresses")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[WaitingEvent]
    next_page: bytes
    node_id: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, events: _Optional[_Iterable[_Union[WaitingEvent, _Mapping]]] = ..., next_page: _Optional[bytes] = ..., node_id: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class WaitingEvent(_message.Message):
    __slots__ = ("event", "due_us", "topic", "partition", "key", "headers", "payload")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    EVENT_FIELD_NUMBER: _ClassVar[int]
    DUE_US_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    event: str
    due_us: int
    topic: str
    partition: int
    key: bytes
    headers: _containers.ScalarMap[str, str]
    payload: bytes
    def __init__(self, event: _Optional[str] = ..., due_us: _Optional[int] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class CancelLaterRequest(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: str
    def __init__(self, event: _Optional[str] = ...) -> None: ...

class CancelLaterReply(_message.Message):
    __slots__ = ("event", "elsewhere", "addresses")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    event: WaitingEvent
    elsewhere: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, event: _Optional[_Union[WaitingEvent, _Mapping]] = ..., elsewhere: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("name", "cron", "zone", "topic", "key", "headers", "payload", "catch_up", "paused", "by", "next_us", "last_us", "last_node", "stopped")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    NEXT_US_FIELD_NUMBER: _ClassVar[int]
    LAST_US_FIELD_NUMBER: _ClassVar[int]
    LAST_NODE_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    name: str
    cron: str
    zone: str
    topic: str
    key: bytes
    headers: _containers.ScalarMap[str, str]
    payload: bytes
    catch_up: str
    paused: bool
    by: str
    next_us: int
    last_us: int
    last_node: str
    stopped: str
    def __init__(self, name: _Optional[str] = ..., cron: _Optional[str] = ..., zone: _Optional[str] = ..., topic: _Optional[str] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ..., payload: _Optional[bytes] = ..., catch_up: _Optional[str] = ..., paused: bool = ..., by: _Optional[str] = ..., next_us: _Optional[int] = ..., last_us: _Optional[int] = ..., last_node: _Optional[str] = ..., stopped: _Optional[str] = ...) -> None: ...

class SchedulesRequest(_message.Message):
    __slots__ = ("name", "page")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    name: str
    page: Page
    def __init__(self, name: _Optional[str] = ..., page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class SchedulesReply(_message.Message):
    __slots__ = ("schedules", "node_id", "next_page")
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    node_id: str
    next_page: bytes
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ..., node_id: _Optional[str] = ..., next_page: _Optional[bytes] = ...) -> None: ...

class PutScheduleRequest(_message.Message):
    __slots__ = ("schedule", "replace")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    replace: bool
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ..., replace: bool = ...) -> None: ...

class PutScheduleReply(_message.Message):
    __slots__ = ("next_us",)
    NEXT_US_FIELD_NUMBER: _ClassVar[int]
    next_us: int
    def __init__(self, next_us: _Optional[int] = ...) -> None: ...

class RemoveScheduleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RemoveScheduleReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PauseScheduleRequest(_message.Message):
    __slots__ = ("name", "paused")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    name: str
    paused: bool
    def __init__(self, name: _Optional[str] = ..., paused: bool = ...) -> None: ...

class PauseScheduleReply(_message.Message):
    __slots__ = ("next_us",)
    NEXT_US_FIELD_NUMBER: _ClassVar[int]
    next_us: int
    def __init__(self, next_us: _Optional[int] = ...) -> None: ...

class TopicSchema(_message.Message):
    __slots__ = ("pattern", "mode", "compatibility", "versions")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    mode: str
    compatibility: str
    versions: _containers.RepeatedCompositeFieldContainer[SchemaVersion]
    def __init__(self, pattern: _Optional[str] = ..., mode: _Optional[str] = ..., compatibility: _Optional[str] = ..., versions: _Optional[_Iterable[_Union[SchemaVersion, _Mapping]]] = ...) -> None: ...

class SchemaVersion(_message.Message):
    __slots__ = ("number", "kind", "text", "at_us", "by")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    number: int
    kind: str
    text: str
    at_us: int
    by: str
    def __init__(self, number: _Optional[int] = ..., kind: _Optional[str] = ..., text: _Optional[str] = ..., at_us: _Optional[int] = ..., by: _Optional[str] = ...) -> None: ...

class SchemasRequest(_message.Message):
    __slots__ = ("topic", "pattern", "page")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    pattern: str
    page: Page
    def __init__(self, topic: _Optional[str] = ..., pattern: _Optional[str] = ..., page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class SchemasReply(_message.Message):
    __slots__ = ("schemas", "next_page", "node_id")
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    schemas: _containers.RepeatedCompositeFieldContainer[TopicSchema]
    next_page: bytes
    node_id: str
    def __init__(self, schemas: _Optional[_Iterable[_Union[TopicSchema, _Mapping]]] = ..., next_page: _Optional[bytes] = ..., node_id: _Optional[str] = ...) -> None: ...

class PutSchemaRequest(_message.Message):
    __slots__ = ("pattern", "kind", "text", "mode", "compatibility", "dry_run")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    kind: str
    text: str
    mode: str
    compatibility: str
    dry_run: bool
    def __init__(self, pattern: _Optional[str] = ..., kind: _Optional[str] = ..., text: _Optional[str] = ..., mode: _Optional[str] = ..., compatibility: _Optional[str] = ..., dry_run: bool = ...) -> None: ...

class PutSchemaReply(_message.Message):
    __slots__ = ("schema",)
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    schema: TopicSchema
    def __init__(self, schema: _Optional[_Union[TopicSchema, _Mapping]] = ...) -> None: ...

class RemoveSchemaRequest(_message.Message):
    __slots__ = ("pattern",)
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    def __init__(self, pattern: _Optional[str] = ...) -> None: ...

class RemoveSchemaReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeysRequest(_message.Message):
    __slots__ = ("key", "page")
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    key: str
    page: Page
    def __init__(self, key: _Optional[str] = ..., page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class KeysReply(_message.Message):
    __slots__ = ("keys", "next_page", "node_id")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    next_page: bytes
    node_id: str
    def __init__(self, keys: _Optional[_Iterable[bytes]] = ..., next_page: _Optional[bytes] = ..., node_id: _Optional[str] = ...) -> None: ...

class CreateKeyRequest(_message.Message):
    __slots__ = ("record",)
    RECORD_FIELD_NUMBER: _ClassVar[int]
    record: bytes
    def __init__(self, record: _Optional[bytes] = ...) -> None: ...

class CreateKeyReply(_message.Message):
    __slots__ = ("key", "node_id")
    KEY_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    node_id: str
    def __init__(self, key: _Optional[bytes] = ..., node_id: _Optional[str] = ...) -> None: ...

class RevokeKeyRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: str
    def __init__(self, key: _Optional[str] = ...) -> None: ...

class RevokeKeyReply(_message.Message):
    __slots__ = ("key", "node_id")
    KEY_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    node_id: str
    def __init__(self, key: _Optional[bytes] = ..., node_id: _Optional[str] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaveReply(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class SetGroupRequest(_message.Message):
    __slots__ = ("group", "policy")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    group: str
    policy: GroupPolicy
    def __init__(self, group: _Optional[str] = ..., policy: _Optional[_Union[GroupPolicy, _Mapping]] = ...) -> None: ...

class SetGroupReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ("node_id", "epoch", "version", "uptime_s", "streams", "events", "log_bytes", "peers_connected", "nodes_known", "listeners", "draining", "console", "counters", "gateways", "certificate_end_s", "not_ready")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    PEERS_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    NODES_KNOWN_FIELD_NUMBER: _ClassVar[int]
    LISTENERS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    CONSOLE_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    GATEWAYS_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_END_S_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    epoch: int
    version: str
    uptime_s: int
    streams: int
    events: int
    log_bytes: int
    peers_connected: int
    nodes_known: int
    listeners: _containers.RepeatedScalarFieldContainer[str]
    draining: bool
    console: str
    counters: Counters
    gateways: _containers.RepeatedCompositeFieldContainer[GatewayInfo]
    certificate_end_s: int
    not_ready: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node_id: _Optional[str] = ..., epoch: _Optional[int] = ..., version: _Optional[str] = ..., uptime_s: _Optional[int] = ..., streams: _Optional[int] = ..., events: _Optional[int] = ..., log_bytes: _Optional[int] = ..., peers_connected: _Optional[int] = ..., nodes_known: _Optional[int] = ..., listeners: _Optional[_Iterable[str]] = ..., draining: bool = ..., console: _Optional[str] = ..., counters: _Optional[_Union[Counters, _Mapping]] = ..., gateways: _Optional[_Iterable[_Union[GatewayInfo, _Mapping]]] = ..., certificate_end_s: _Optional[int] = ..., not_ready: _Optional[_Iterable[str]] = ...) -> None: ...

class Counters(_message.Message):
    __slots__ = ("published_events", "published_bytes", "delivered_events", "delivered_bytes", "clients", "subscriptions")
    PUBLISHED_EVENTS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_EVENTS_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_BYTES_FIELD_NUMBER: _ClassVar[int]
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    published_events: int
    published_bytes: int
    delivered_events: int
    delivered_bytes: int
    clients: int
    subscriptions: int
    def __init__(self, published_events: _Optional[int] = ..., published_bytes: _Optional[int] = ..., delivered_events: _Optional[int] = ..., delivered_bytes: _Optional[int] = ..., clients: _Optional[int] = ..., subscriptions: _Optional[int] = ...) -> None: ...

class GatewayInfo(_message.Message):
    __slots__ = ("protocol", "listeners", "verdicts", "refused")
    class VerdictsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class RefusedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    LISTENERS_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    protocol: str
    listeners: _containers.RepeatedScalarFieldContainer[str]
    verdicts: _containers.ScalarMap[str, int]
    refused: _containers.ScalarMap[str, int]
    def __init__(self, protocol: _Optional[str] = ..., listeners: _Optional[_Iterable[str]] = ..., verdicts: _Optional[_Mapping[str, int]] = ..., refused: _Optional[_Mapping[str, int]] = ...) -> None: ...

class PeersRequest(_message.Message):
    __slots__ = ("page",)
    PAGE_FIELD_NUMBER: _ClassVar[int]
    page: Page
    def __init__(self, page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class PeersReply(_message.Message):
    __slots__ = ("peers", "next_page", "node_id")
    PEERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    peers: _containers.RepeatedCompositeFieldContainer[PeerInfo]
    next_page: bytes
    node_id: str
    def __init__(self, peers: _Optional[_Iterable[_Union[PeerInfo, _Mapping]]] = ..., next_page: _Optional[bytes] = ..., node_id: _Optional[str] = ...) -> None: ...

class PeerInfo(_message.Message):
    __slots__ = ("node_id", "addresses", "state", "incarnation", "epoch", "connected", "dialled_by_us", "rtt_us", "queue_frames", "lag_events", "neighbours", "interest", "bytes_sent", "bytes_received", "messages_sent", "messages_received", "trouble")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    DIALLED_BY_US_FIELD_NUMBER: _ClassVar[int]
    RTT_US_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FRAMES_FIELD_NUMBER: _ClassVar[int]
    LAG_EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    INTEREST_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    BYTES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_SENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    state: str
    incarnation: int
    epoch: int
    connected: bool
    dialled_by_us: bool
    rtt_us: int
    queue_frames: int
    lag_events: int
    neighbours: _containers.RepeatedScalarFieldContainer[str]
    interest: _containers.RepeatedScalarFieldContainer[str]
    bytes_sent: int
    bytes_received: int
    messages_sent: int
    messages_received: int
    trouble: str
    def __init__(self, node_id: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ..., state: _Optional[str] = ..., incarnation: _Optional[int] = ..., epoch: _Optional[int] = ..., connected: bool = ..., dialled_by_us: bool = ..., rtt_us: _Optional[int] = ..., queue_frames: _Optional[int] = ..., lag_events: _Optional[int] = ..., neighbours: _Optional[_Iterable[str]] = ..., interest: _Optional[_Iterable[str]] = ..., bytes_sent: _Optional[int] = ..., bytes_received: _Optional[int] = ..., messages_sent: _Optional[int] = ..., messages_received: _Optional[int] = ..., trouble: _Optional[str] = ...) -> None: ...

class GroupsRequest(_message.Message):
    __slots__ = ("group", "page")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    group: str
    page: Page
    def __init__(self, group: _Optional[str] = ..., page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class GroupsReply(_message.Message):
    __slots__ = ("groups", "next_page", "node_id")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupInfo]
    next_page: bytes
    node_id: str
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupInfo, _Mapping]]] = ..., next_page: _Optional[bytes] = ..., node_id: _Optional[str] = ...) -> None: ...

class GroupsPlace(_message.Message):
    __slots__ = ("group", "after")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    group: str
    after: StreamRef
    def __init__(self, group: _Optional[str] = ..., after: _Optional[_Union[StreamRef, _Mapping]] = ...) -> None: ...

class GroupInfo(_message.Message):
    __slots__ = ("group", "members", "streams", "policy")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    group: str
    members: _containers.RepeatedScalarFieldContainer[str]
    streams: _containers.RepeatedCompositeFieldContainer[GroupStream]
    policy: GroupPolicy
    def __init__(self, group: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ..., streams: _Optional[_Iterable[_Union[GroupStream, _Mapping]]] = ..., policy: _Optional[_Union[GroupPolicy, _Mapping]] = ...) -> None: ...

class GroupStream(_message.Message):
    __slots__ = ("position", "latest_offset", "member", "lag_us", "earliest_offset")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LATEST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    LAG_US_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    position: StreamPosition
    latest_offset: int
    member: str
    lag_us: int
    earliest_offset: int
    def __init__(self, position: _Optional[_Union[StreamPosition, _Mapping]] = ..., latest_offset: _Optional[int] = ..., member: _Optional[str] = ..., lag_us: _Optional[int] = ..., earliest_offset: _Optional[int] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("topic", "origin", "page")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    topic: str
    origin: str
    page: Page
    def __init__(self, topic: _Optional[str] = ..., origin: _Optional[str] = ..., page: _Optional[_Union[Page, _Mapping]] = ...) -> None: ...

class ExplainReply(_message.Message):
    __slots__ = ("recipients", "next_page", "node_id", "servers")
    RECIPIENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    recipients: _containers.RepeatedCompositeFieldContainer[Recipient]
    next_page: bytes
    node_id: str
    servers: _containers.RepeatedCompositeFieldContainer[Recipient]
    def __init__(self, recipients: _Optional[_Iterable[_Union[Recipient, _Mapping]]] = ..., next_page: _Optional[bytes] = ..., node_id: _Optional[str] = ..., servers: _Optional[_Iterable[_Union[Recipient, _Mapping]]] = ...) -> None: ...

class Recipient(_message.Message):
    __slots__ = ("node_id", "pattern", "path", "reason")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    pattern: str
    path: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    def __init__(self, node_id: _Optional[str] = ..., pattern: _Optional[str] = ..., path: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ...) -> None: ...
