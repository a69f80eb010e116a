"""Certificates on EXMP connections: what cannot be used is named, and nobody is trusted by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transport.tcp.raw import QUIET, Echo, listening
from weft.errors import UsageError
from weft.transport.tcp import Unreachable, client_context, dial, server_context


@pytest.mark.req("EXM-10")
def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    empty, missing = tmp_path / "empty.pem", tmp_path / "missing.pem"
    empty.write_text("")
    with pytest.raises(UsageError, match=r"no certificates to trust in .*missing.pem: No such file"):
        client_context(missing)
    with pytest.raises(UsageError, match=r"no certificates to trust in .*empty.pem"):
        client_context(empty)
    with pytest.raises(UsageError, match=r"no certificate with its key in .*empty.pem"):
        server_context(empty)
    with pytest.raises(UsageError, match=r"no certificate with its key in .*empty.pem and .*missing.pem"):
        client_context(None, empty, missing)


@pytest.mark.req("EXM-10")
async def test_plain_text_where_tls_is_wanted_is_no_connection() -> None:
    async with listening() as place:
        with pytest.raises(Unreachable, match=r"no TLS with 127.0.0.1 port"):
            await dial("127.0.0.1", place.port, QUIET, Echo, client_context(None))


async def test_nobody_there_is_said_so() -> None:
    with pytest.raises(Unreachable, match=r"cannot connect to 127.0.0.1 port 1"):
        await dial("127.0.0.1", 1, QUIET, Echo)
