"""Which events have to be encrypted, and with which key: rules by name, for senders and receivers (EMM-22, EMM-23)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.errors import UsageError
from weft.model import Pattern, Topic, matches
from weft.wire.emm.encryption import IV_BYTES, KEY_ID_BYTES, Encryption
from weft.wire.emm.fields import Algorithm
from weft.wire.emm.seal import KeyFinder, Seal


@dataclass(frozen=True, slots=True)
class SealRule:
    """Events whose name matches ``pattern`` travel encrypted. A sender uses the key with that id."""

    pattern: Pattern
    key_id: bytes
    algorithm: Algorithm = Algorithm.AES_256_GCM

    def __post_init__(self) -> None:
        if len(self.key_id) != KEY_ID_BYTES:
            raise UsageError("the id of an encryption key has the wrong size", need=KEY_ID_BYTES, have=len(self.key_id))


def rule_for(rules: Sequence[SealRule], name: str) -> SealRule | None:
    """The first rule that matches."""
    return next((rule for rule in rules if matches(rule.pattern, Topic(name))), None)


def seal_for(rules: Sequence[SealRule], name: str, find_key: KeyFinder, chance: Callable[[int], int]) -> Seal | None:
    """How to encrypt an event of that name; None if it may go in the clear. UsageError if the key is not there.

    ``chance`` gives so many random bits: an IV must never serve twice with one key.
    """
    rule = rule_for(rules, name)
    if rule is None:
        return None
    key = find_key(rule.key_id)
    if key is None:
        raise UsageError(
            f"events named {name!r} must be encrypted, and there is no key with that id: "
            "weft trust add --encryption-key",
            key_id=rule.key_id.hex(),
        )
    return Seal(Encryption(rule.algorithm, chance(8 * IV_BYTES).to_bytes(IV_BYTES), rule.key_id), key)
