"""Fuzz targets of the security room: each reader raises its one error, whatever the bytes."""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec
from google.protobuf.message import DecodeError

from tests.security.stated import made, record, revoked, statement
from weft.errors import UsageError
from weft.node.key_answers import read_new_record_untrusted
from weft.security import (
    BadIdentity,
    CertificateRefused,
    RequestRefused,
    Secret,
    TokenRefused,
    Unauthenticated,
    node,
    parse_identity_untrusted,
    read_identity_untrusted,
)
from weft.security.api_keys import parse_key_untrusted
from weft.security.certificates import Names, read_certificate_untrusted
from weft.security.issuing import check_names, read_request_untrusted
from weft.security.key_exchange import KeyTalk
from weft.security.key_statements import BY_CHARS_MAX, BadStatement, read_body_untrusted
from weft.security.mesh_keys import BUCKETS
from weft.security.tokens import read_token_untrusted
from weft.transport.peers.key_messages import key_message, read_key_talk_untrusted
from weft.wire.mesh.checks import BadMeshMessage
from weft.wire.mesh.peerlink_pb2 import PeerKeys

SAID = tuple(statement(each).text for each in (made(record(1, publish=["a.>"])), revoked(record(1))))
NAMES = Names(node("plant", "node-a"), ("node-a.example.org", "127.0.0.1", "::1"))

# A certificate and a request of node-a, made by the CA here.
CERTIFICATE = base64.b64decode(
    "MIICBTCCAaqgAwIBAgIUYFAdVvWZ3DMz/8swjcyvJKlC6ykwCgYIKoZIzj0EAwIwHTEbMBkGA1UEAwwScGxhbnQgaW50ZXJtZWRp"
    "YXRlMB4XDTI3MDExNTA3NTkwMFoXDTI3MDExNjA4MDAwMFowETEPMA0GA1UEAwwGbm9kZS1hMFkwEwYHKoZIzj0CAQYIKoZIzj0D"
    "AQcDQgAEh5yDSU11leTL2o9bPs93w3OdMvg8U0UgOU5sylpU/kKDNo9ImqzYm/IcXyeY35dW1lKMIYzUgr+QpLkXwj+/RqOB0zCB"
    "0DBRBgNVHREESjBIhhpzcGlmZmU6Ly9wbGFudC9ub2RlL25vZGUtYYISbm9kZS1hLmV4YW1wbGUub3JnhwR/AAABhxAAAAAAAAAA"
    "AAAAAAAAAAABMAwGA1UdEwEB/wQCMAAwDgYDVR0PAQH/BAQDAgeAMB0GA1UdJQQWMBQGCCsGAQUFBwMBBggrBgEFBQcDAjAdBgNV"
    "HQ4EFgQUbzEN60Av0nkDpHUYVBqTeSxHb7MwHwYDVR0jBBgwFoAUrLJucJpu3dhUi7cHNGkqUoKnyZ0wCgYIKoZIzj0EAwIDSQAw"
    "RgIhAIEVknk93uuR6FgK5njthn9Hx2kKbjA7zYWC412UQWr4AiEA4j4InbW5Y9QjWAYmq+0VszAPFclScCHuvnDcBydjGFM="
)
REQUEST = base64.b64decode(
    "MIIBMDCB1wIBADARMQ8wDQYDVQQDDAZub2RlLWEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASaopoTmb44mT55O0Q0vkJTT3jf"
    "MpUSABq/UlxtrSmjWey9Mr3A8vzFzTU/U7Nn/k5JpxjVNk3zOtd+atNbICzAoGQwYgYJKoZIhvcNAQkOMVUwUzBRBgNVHREESjBI"
    "hhpzcGlmZmU6Ly9wbGFudC9ub2RlL25vZGUtYYISbm9kZS1hLmV4YW1wbGUub3JnhwR/AAABhxAAAAAAAAAAAAAAAAAAAAABMAoG"
    "CCqGSM49BAMCA0gAMEUCIQD4rrkK9JivWhnnSb2H7wNZ6K6eBmyP3j/ZdQIB0GqnAAIgSMxKBCCs3+E+Gp4lLfwJbV5oE/iKizvU"
    "rCP8vRLiA04="
)
TOKEN = (
    b"eyJhbGciOiJFUzI1NiIsImtpZCI6ImsiLCJ0eXAiOiJKV1QifQ."
    b"eyJpc3MiOiJ3ZWZ0IiwiYXVkIjoiaHR0cHM6Ly8xMjcuMC4wLjE6NzQ0My8xLjAvc2lnbiIsInN1YiI6Im5vZGUtYSIsIm5iZiI6"
    b"MTgwMDAwMDAwMCwiZXhwIjoxODAwMDAwMzAwLCJqdGkiOiJ0MSIsInNhbnMiOlsic3BpZmZlOi8vcGxhbnQvbm9kZS9ub2RlLWEi"
    b"LCJub2RlLWEuZXhhbXBsZS5vcmciLCIxMjcuMC4wLjEiLCI6OjEiXSwic2hhIjoiMzJlNmFkZTlmNzNkMjk4NGJlOTI0MGFmYzA5"
    b"NDg0NjM4OThjOGJmYmZjNDMwZTYzMmNkN2NmZThlZDEzYmZjMyIsImlhdCI6MTgwMDAwMDAwMH0"
    b".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)


def certificate(data: bytes) -> None:
    try:
        read_identity_untrusted(read_certificate_untrusted(data))
    except CertificateRefused:
        return


def request(data: bytes) -> None:
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(data) + b"-----END CERTIFICATE REQUEST-----\n"
    try:
        check_names(read_request_untrusted(pem), NAMES)
    except RequestRefused:
        return


def token(data: bytes) -> None:
    try:
        claims = read_token_untrusted(Secret(data.decode("latin-1")))
        assert claims.ca.port < 1 << 16
        assert claims.names.identity.name == claims.sub
    except TokenRefused:
        return


def identity(data: bytes) -> None:
    text = data.decode("latin-1")
    try:
        assert parse_identity_untrusted(text).uri == text
    except BadIdentity:
        return


def api_key(data: bytes) -> None:
    try:
        parse_key_untrusted(data.decode("latin-1"))
    except Unauthenticated:
        return


def key_statement(data: bytes) -> None:
    try:
        said = read_body_untrusted(data)
    except BadStatement:
        return
    assert len(said.by) <= BY_CHARS_MAX and said.key_name.id.startswith("k")


def key_talk(data: bytes) -> None:
    message = PeerKeys()
    try:
        message.ParseFromString(data)
        talk = read_key_talk_untrusted(message)
    except (DecodeError, BadMeshMessage):
        return
    assert len(talk.buckets) in (0, BUCKETS) and len(talk.asked) == len(set(talk.asked)) <= BUCKETS


def new_key_record(data: bytes) -> None:
    try:
        read_new_record_untrusted(data, 0.0)
    except UsageError:
        return


TARGETS: dict[str, Callable[[bytes], None]] = {
    "security-certificate": certificate,
    "security-request": request,
    "security-token": token,
    "security-identity": identity,
    "security-api-key": api_key,
    "security-key-statement": key_statement,
    "security-key-talk": key_talk,
    "security-new-key-record": new_key_record,
}
SEEDS: dict[str, list[bytes]] = {
    "security-certificate": [CERTIFICATE],
    "security-request": [REQUEST],
    "security-token": [TOKEN],
    "security-identity": [b"spiffe://plant/node/node-a", b"spiffe://plant/client/billing"],
    "security-api-key": [b"weft_k1_" + b"0f" * 32, b"weft_k0123456789abcdef_" + b"0f" * 32],
    "security-key-statement": [each.body for each in SAID],
    "security-key-talk": [
        key_message(KeyTalk(statements=SAID, asked=(1, 200))).keys.SerializeToString(),
        key_message(KeyTalk(buckets=(bytes(8),) * BUCKETS, took=True)).keys.SerializeToString(),
    ],
    "security-new-key-record": [msgspec.json.encode(record(1, publish=["a.>"]))],
}
