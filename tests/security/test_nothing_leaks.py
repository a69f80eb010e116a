"""No secret in anything that is printed, raised or logged: a whole story, with everything it wrote searched."""

from __future__ import annotations

import asyncio
import io
import logging
import traceback
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.security import pki
from weft.errors import WeftError
from weft.security import (
    SALT_BYTES,
    SECRET_BYTES,
    Authenticator,
    CertificateStore,
    KeyRequest,
    KeyStore,
    Secret,
    create_key,
    enrol,
    read_keys,
    renew,
)
from weft.security.ca.server import CaServer
from weft.security.trust_file import DeviceKey, KeyKind, add_device, add_group, read_trust

ENTROPY = bytes(range(100, 100 + SECRET_BYTES + SALT_BYTES))
DEVICE_KEY, GROUP_KEY = b"D" * 32, b"G" * 32


class Searched:
    """Collects what anybody could see."""

    def __init__(self) -> None:
        self.text = io.StringIO()

    def show(self, *values: object) -> None:
        for value in values:
            self.text.write(f"{value!r} {value}\n")

    def failing(self, call: Any, *arguments: Any, **options: Any) -> None:
        with pytest.raises(WeftError) as caught:
            call(*arguments, **options)
        self.show(caught.value, caught.value.facts)
        self.text.write("".join(traceback.format_exception(caught.value)))


@pytest.mark.req("SEC-01", "SEC-02")
async def test_a_whole_story_shows_no_secret(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    searched = Searched()
    handler = logging.StreamHandler(searched.text)
    root_logger = logging.getLogger()
    level = root_logger.level
    root_logger.addHandler(handler)
    root_logger.setLevel(logging.DEBUG)
    try:
        secrets = await story(tmp_path, searched)
    finally:
        root_logger.removeHandler(handler)
        root_logger.setLevel(level)
    printed = capfd.readouterr()
    everything = searched.text.getvalue() + printed.out + printed.err
    assert "node-a" in everything, "the search sees what is there"
    for name, secret in secrets.items():
        assert secret not in everything, f"{name} leaked"
        assert repr(secret.encode())[2:-1] not in everything, f"{name} leaked"


async def story(tmp_path: Path, searched: Searched) -> dict[str, str]:
    now_s = pki.wall()
    ca = pki.authority(tmp_path, now_s=now_s, url="https://127.0.0.1")
    token = pki.token(ca, now_s=now_s)
    server = CaServer(ca, "127.0.0.1", 0, pki.wall, searched.show)
    await server.start()
    url = f"https://127.0.0.1:{server.port}"
    try:
        found = await asyncio.to_thread(enrol, token, now_s, url=url)
        await asyncio.to_thread(searched.failing, enrol, token, now_s, url=url)
        store = CertificateStore(tmp_path / "tls")
        store.save(found)
        await asyncio.to_thread(renew, store, url, now_s)
    finally:
        await server.stop()
    searched.failing(enrol, token, now_s, url=url)
    searched.failing(renew, store, url, now_s + 2 * pki.DAY_S)
    searched.show(found, ca, ca.signer, ca.settings, ca.provisioner_key(), token, vars(server))

    record, key = create_key(tmp_path, KeyRequest("billing", admin=True), ENTROPY, now_s)
    authenticator = Authenticator(KeyStore(tmp_path), b"k" * 32, clock=lambda: 0.0, wall_clock=pki.wall)
    principal = await authenticator.authenticate_untrusted(key, "10.0.0.1")
    for wrong in (key.reveal() + "0", key.reveal().replace(record.id, "k2"), key.reveal()[:-1]):
        with pytest.raises(WeftError) as caught:
            await authenticator.authenticate_untrusted(Secret(wrong), "10.0.0.1")
        searched.show(caught.value, caught.value.facts)
    searched.show(key, record, principal, vars(authenticator), read_keys(tmp_path))

    add_device(tmp_path, DeviceKey(UUID(int=1), bytes(4), KeyKind.HMAC, Secret(DEVICE_KEY)))
    add_group(tmp_path, Secret(GROUP_KEY))
    searched.show(read_trust(tmp_path))
    searched.failing(add_group, tmp_path, Secret(GROUP_KEY))

    files = {
        name: (ca.directory / name).read_text() for name in ("root-key.pem", "intermediate.pem", "provisioner.jwk")
    }
    return {
        "token": token.reveal().rsplit(".", 1)[1],
        "node key": key_body(found.key_pem.reveal().decode()),
        "root key": key_body(files["root-key.pem"]),
        "intermediate key": key_body(files["intermediate.pem"]),
        "provisioner key": files["provisioner.jwk"].split('"d": "')[1].split('"')[0],
        "API key": ENTROPY[:SECRET_BYTES].hex()[:-1],
        "API key hash": record.hash.digest,
        "device key": DEVICE_KEY.decode(),
        "device key in hex": DEVICE_KEY.hex(),
        "group key": GROUP_KEY.decode(),
        "group key in hex": GROUP_KEY.hex(),
    }


def key_body(pem: str) -> str:
    """A line from the middle of a private key in PEM."""
    return pem.split("-----BEGIN PRIVATE KEY-----\n")[1].splitlines()[1]
