"""Somebody whose key was revoked loses what the key gave, and nothing that another key gives afterwards."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.node.secured import key_for
from weft.gateway.exmp.admission import Credential, KeyAdmission
from weft.model import Topic
from weft.port.access import KeyAccess
from weft.security import Authenticator, KeyStore, Refused, Secret, Unauthenticated, revoke_key


@pytest.mark.req("SEC-07")
async def test_a_connection_that_shows_another_key_is_not_held_to_the_old_one(tmp_path: Path) -> None:
    """Every look at the keys told the connection again, and each time began another wait for a key: all but the last
    ended it, half a minute later, whatever key was shown meanwhile."""

    now_s = 0.0
    old_id, old = key_for(tmp_path, time.time(), publish=("old.>",))
    _, new = key_for(tmp_path, time.time(), publish=("new.>",))
    keys = KeyStore(tmp_path)
    authenticator = Authenticator(keys, b"k" * 32, clock=lambda: now_s, wall_clock=time.time)
    access = KeyAccess(authenticator, "weft", lambda error, who: None, certificate_required=False)
    expelled: list[Refused] = []
    credential = Credential(KeyAdmission(access, "weft", (), ()), lambda caller, error: expelled.append(error))
    await credential.show_key_untrusted(Secret(old), "10.0.0.1")
    revoke_key(tmp_path, old_id)
    await keys.look()
    for _ in range(3):
        now_s += 1.0
        access.look()
    assert [str(error) for error in expelled] == [f"key {old_id} was revoked"], "told once"
    with pytest.raises(Unauthenticated, match="authenticate with an API key first"):
        _ = credential.caller
    await credential.show_key_untrusted(Secret(new), "10.0.0.1")
    for _ in range(3):
        now_s += 1.0
        access.look()
    assert len(expelled) == 1
    credential.caller.check_publish(Topic("new.t"))
