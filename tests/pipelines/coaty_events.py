"""Coaty's events as a bridge puts them on the mesh, for tests."""

from __future__ import annotations

from uuid import UUID

from weft.wire.coaty import Advertise, CoatyObject, Deadvertise, Message, encode_payload

AGENT = "11111111-1111-4111-8111-111111111111"


def uuid(number: int) -> str:
    return str(UUID(int=number, version=4))


def coaty_object(object_id: str, name: str = "lamp", **more: object) -> CoatyObject:
    return {"objectId": object_id, "objectType": "com.example.Lamp", "coreType": "CoatyObject", "name": name, **more}


def identity(agent_id: str, name: str = "agent") -> CoatyObject:
    return {"objectId": agent_id, "objectType": "coaty.Identity", "coreType": "Identity", "name": name}


def advertise(published: CoatyObject, source_id: str = AGENT) -> bytes:
    return encode_payload(Message(source_id, Advertise(published)))


def deadvertise(*object_ids: str, source_id: str = AGENT) -> bytes:
    return encode_payload(Message(source_id, Deadvertise(list(object_ids))))
