"""Somebody on the network who has no key: locks nobody out, and finds no door that ``--insecure`` left open."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import weft as sdk
from tests.cli.commands import Weft
from tests.cli.conftest import weft as weft
from tests.node.secured import key_for
from tests.up import up
from weft.client import Unauthenticated
from weft.configuration import BadConfig
from weft.gateway.emm.settings import Target
from weft.model import Receipt
from weft.node.config import NodeConfig
from weft.node.config.loading import load_config
from weft.security.rates import FAILURES_BURST, GUESSES_BURST, GuessedKey, KeyGuessLimiter
from weft.transport.addresses import Address

ANY = "0.0.0.0:4242"
AGENT = "/ip4/10.0.0.9/tcp/4001/p2p/QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N"
# Each of them alone: what else it takes, the setting, and an address that is not this machine's alone.
DOORS: dict[str, dict[str, Any]] = {
    "listen.grpc": {"listen.grpc": ANY},
    "listen.admin": {"listen.admin": ANY},
    "peer": {"peers": ["10.0.0.9:7400"]},
    "gateway.exmp.tcp": {"gateway.exmp.tcp": ANY},
    "gateway.emm.udp": {"gateway.emm.udp": ANY},
    "gateway.emm.join": {"gateway.emm.udp": "127.0.0.1:0", "gateway.emm.join": ["10.0.0.9:4700"]},
    "gateway.emm.compact_join": {"gateway.emm.udp": "127.0.0.1:0", "gateway.emm.compact_join": ["10.0.0.9:4700"]},
    "gateway.emm.out.targets": {
        "gateway.emm.udp": "127.0.0.1:0",
        "gateway.emm.out": [{"pattern": "a", "targets": ["10.0.0.9:4700"]}],
    },
    "gateway.coaty.listen": {"gateway.coaty.namespace": "plant", "gateway.coaty.listen": ANY},
    "gateway.coaty.mdns": {"gateway.coaty.namespace": "plant", "gateway.coaty.mdns": ["10.0.0.9"]},
    "gateway.coaty.bootstrap": {"gateway.coaty.namespace": "plant", "gateway.coaty.bootstrap": [AGENT]},
}
# Not with --insecure at all, or not an address of this node's own.
ELSEWHERE = {"listen.ca", "gateway.exmp.tls", "gateway.emm.quic", "listen.advertise"}


# --- lockouts (rule 2) -------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-04")
async def test_wrong_keys_do_not_lock_out_a_good_one_behind_the_same_address(tmp_path: Path) -> None:
    """All clients of this test have one address, as people behind one NAT have."""

    with up(tmp_path / "data") as node:
        context = node.context
        assert context.tls_root is not None and context.token is not None
        first_id = context.token.split("_")[1]
        wrong = f"weft_{first_id}_{'ab' * 32}"
        tls = sdk.TlsFiles(Path(context.tls_root))

        async def publish(key: str) -> Receipt:
            async with sdk.connect(node.grpc, token=key, tls=tls) as client:
                return await client.publish("plant.t", b"x")

        for _ in range(FAILURES_BURST):
            with pytest.raises(Unauthenticated, match=f"key {first_id} is not valid"):
                await publish(wrong)
        with pytest.raises(Unauthenticated, match=rf"key {first_id} was wrong too often from 127\.0\.0\.1: wait"):
            await publish(wrong)
        for _ in range(2 * FAILURES_BURST):  # ids that do not exist are answered at once, and count for nobody
            with pytest.raises(Unauthenticated, match="key k77 is not valid"):
                await publish(f"weft_k77_{'ab' * 32}")
        _, good = key_for(tmp_path / "data", 0.0, publish=("plant.>",))
        assert (await publish(good)).first_offset == 0, "never shown before, and from the same address"
        node.end_quietly()


@pytest.mark.req("SEC-04")
def test_guessing_at_every_key_there_is_slows_down_what_was_guessed_at_and_nothing_else() -> None:
    limiter = KeyGuessLimiter()
    for number in range(GUESSES_BURST):  # one guess each: no key has used up its own
        guess = GuessedKey("10.0.0.1", f"k{number}")
        assert limiter.wait_s(guess, 0.0) == 0
        limiter.failed(guess, 0.0)
    assert limiter.wait_s(GuessedKey("10.0.0.1", "k5"), 0.0) > 0, "the address has guessed enough"
    assert limiter.wait_s(GuessedKey("10.0.0.2", "k5"), 0.0) == 0, "another address has not"
    assert limiter.wait_s(GuessedKey("10.0.0.1", "k500"), 0.0) == 0, "nobody guessed at this one"
    assert limiter.wait_s(GuessedKey("10.0.0.1", "k5"), 10.0) == 0, "it was long enough ago"


# --- no door is exempt (rule 5) ----------------------------------------------------------------------------------


@pytest.mark.req("SEC-07")
def test_weft_up_refuses_an_insecure_door(weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "weft.toml"
    file.write_text('[gateway.coaty]\nnamespace = "plant"\nlisten = "0.0.0.0:0"\n')
    outcome = weft("up", "--insecure", "--data", tmp_path / "data", "--config", file)
    assert outcome.status == 1
    assert "these are others: gateway.coaty.listen 0.0.0.0:0" in outcome.err.replace("\n", " ")
    assert not (tmp_path / "data").exists()


@pytest.mark.req("SEC-07")
@pytest.mark.parametrize("door", DOORS)
def test_insecure_is_for_loopback_at_every_door(door: str) -> None:
    with pytest.raises(BadConfig) as caught:
        load_config(None, {}, {"insecure": True, **DOORS[door]})
    assert "loopback addresses (127.0.0.1, [::1], localhost) only" in str(caught.value)
    assert door in str(caught.value)


@pytest.mark.req("SEC-07")
def test_every_setting_with_an_address_is_known_as_a_door() -> None:
    """A new gateway cannot forget to say where it listens."""
    named = set(_with_addresses(NodeConfig)) | {"gateway.coaty.mdns", "gateway.coaty.bootstrap"}
    assert {name.replace("peers.address", "peer") for name in named} == set(DOORS) | ELSEWHERE


def _with_addresses(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        parts = set(_types_in(field.annotation))
        if parts & {Address, Target}:
            yield prefix + name
        for part in parts:
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from _with_addresses(part, f"{prefix}{name}.")


def _types_in(annotation: Any) -> Iterator[Any]:
    yield annotation
    if typing.get_origin(annotation) is not None or isinstance(annotation, types.UnionType):
        for part in typing.get_args(annotation):
            yield from _types_in(part)
