"""The state of a namespace on a compacted topic of the mesh: all objects that were advertised and not deadvertised, by
id.

A reader of ``coaty.<namespace>.objects`` from the beginning knows all existing objects: the last event of a key is the
object, and an empty one means that it is gone.
"""

from __future__ import annotations

from structlog.stdlib import BoundLogger

from weft.errors import UsageError, WeftError
from weft.gateway.coaty.topics import objects_topic
from weft.gateway.publishing import Publishing
from weft.limits import COATY_PAYLOAD_BYTES_MAX
from weft.model import Receipt
from weft.wire.coaty import Advertise, Deadvertise, Message
from weft.wire.coaty.jsonvalues import encode_json


class Objects:
    def __init__(self, namespace: str, publishing: Publishing, logger: BoundLogger) -> None:
        self._topic = objects_topic(namespace)
        self._publishing = publishing
        self._logger = logger

    def happened(self, message: Message) -> None:
        """This bridge has carried an event over, in either direction. An object that is too long is left out: written
        again, it may be longer than it came."""
        source = {"coaty-source-id": message.source_id}
        match message.data:
            case Advertise(advertised):
                try:
                    payload = encode_json(advertised, "object", COATY_PAYLOAD_BYTES_MAX)
                except UsageError as error:
                    self.refused(error)
                    return
                self._publishing.add(self._topic, payload, advertised["objectId"].encode(), source, self)
            case Deadvertise(object_ids):
                for object_id in object_ids:
                    self._publishing.add(self._topic, b"", object_id.encode(), source, self)
            case _:
                pass  # this changes no object

    def published(self, receipt: Receipt, number: int) -> None:
        pass

    def refused(self, error: WeftError) -> None:
        self._logger.warning("coaty_object_refused", reason=str(error))
