"""What is set about an EMM node holds for what it sends and for what it takes."""

from __future__ import annotations

import secrets

import pytest

from tests.emm.test_node import WAIT_S, first, node, until
from tests.emm.world import node_id, secret, trust_of
from weft import emm
from weft.errors import UsageError
from weft.model import parse_pattern
from weft.wire import emm as wire
from weft.wire.emm.encryption import read_encryption_untrusted
from weft.wire.reject import Reject

SEAL_ID, SEAL_KEY = b"i" * 16, b"k" * 32
SECRETS = emm.SealRule(parse_pattern("secret.>"), SEAL_ID, emm.Algorithm.CHACHA20_POLY1305)
LARGE = emm.Rules(packet_bytes_max=1400)


@pytest.mark.req("EMM-22", "EMM-23")
async def test_events_are_sealed_by_name_and_refused_in_the_clear() -> None:
    sealing = emm.Settings(seal=(SECRETS,))
    refused: list[emm.Refusal] = []
    async with (
        node(0, settings=sealing, seal_keys={SEAL_ID: SEAL_KEY}) as one,
        node(1, settings=sealing, seal_keys={SEAL_ID: SEAL_KEY}, on_refused=refused.append) as other,
        node(2, on_refused=refused.append) as careless,
    ):
        await one.join(other.address, timeout_s=WAIT_S)
        await one.publish("secret.temp", 21.5)
        assert (await first(other)).values == (21.5,)
        await careless.join(other.address, timeout_s=WAIT_S)
        await careless.publish("secret.temp", "in the clear")
        await until(lambda: refused)
        assert refused[0].error.reason is Reject.UNSEALED
        await one.join(careless.address, timeout_s=WAIT_S)
        await one.publish("secret.temp", 22.5)
        await until(lambda: len(refused) == 2)
        assert refused[1].error.reason is Reject.UNDECRYPTABLE, "it has no key"
        assert b"secret.temp" not in refused[1].data


async def test_without_its_key_a_secret_is_not_sent() -> None:
    async with node(0, settings=emm.Settings(seal=(SECRETS,))) as one:
        with pytest.raises(UsageError, match="there is no key with that id"):
            await one.publish("secret.temp", 1)
        assert await one.publish("public.temp", 1) == 0


@pytest.mark.req("EMM-04", "EMM-24")
async def test_larger_packets_and_compressed_ones() -> None:
    refused: list[emm.Refusal] = []
    large, small = emm.Settings(rules=LARGE), emm.Settings(compress=True)
    async with (
        node(0, settings=large) as one,
        node(1, settings=large) as other,
        node(2, settings=small, on_refused=refused.append) as third,
    ):
        await one.join(other.address, timeout_s=WAIT_S)
        await one.join(third.address, timeout_s=WAIT_S)
        await one.publish("n", b"x" * 900)
        assert (await first(other)).values == (b"x" * 900,)
        await until(lambda: refused)
        assert refused[0].error.reason is Reject.OVERSIZE
        await third.publish("n", "y" * 2000)
        assert (await first(one)).values == ("y" * 2000,), "compressed, it fits the smaller packet"
        with pytest.raises(UsageError, match="too large"):
            await other.publish("n", "y" * 2000)
        with pytest.raises(UsageError, match="limit 1400"):
            await one.publish("n", secrets.token_bytes(1400))


@pytest.mark.req("EMM-26")
async def test_the_profile_holds_both_ways() -> None:
    refused: list[emm.Refusal] = []
    strict = emm.Settings(rules=emm.Rules(profile=emm.Profile.INTEROP_V1))
    nameless = emm.Credentials(hmac_key=secret(1))  # no key id
    async with (
        node(0, settings=strict, on_refused=refused.append) as one,
        emm.Node(node_id(1), nameless, trust_of(3), join=[one.address]),
    ):
        await until(lambda: refused)
        assert refused[0].error.reason is Reject.PROFILE
    async with emm.Node(node_id(1), nameless, trust_of(3), settings=strict) as other:
        with pytest.raises(UsageError, match="interop-v1 requires"):
            await other.publish("n")


@pytest.mark.req("EMM-02")
async def test_message_ids_and_ivs_come_from_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[int, int]] = []

    def randbits(bits: int) -> int:
        drawn.append((bits, really(bits)))
        return drawn[-1][1]

    really = secrets.randbits

    monkeypatch.setattr("weft.emm.node.secrets.randbits", randbits)
    taken: list[bytes] = []
    settings = emm.Settings(seal=(SECRETS,))
    async with (
        node(1, on_refused=lambda refusal: taken.append(refusal.data)) as other,  # has no key to open it with
        node(0, settings=settings, seal_keys={SEAL_ID: SEAL_KEY}) as one,
    ):
        await one.join(other.address, timeout_s=WAIT_S)
        await one.publish("secret.temp", 1)
        await until(lambda: taken)
        await one.publish("public.temp", 1)
        assert (32, (await first(other)).message_id) in drawn
    packet = wire.parse_untrusted(taken[0])
    assert (32, packet.message_id) in drawn
    iv = int.from_bytes(read_encryption_untrusted(packet, 64).iv)
    assert (96, iv) in drawn
