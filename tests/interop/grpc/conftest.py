"""Certificates for peers."""

from __future__ import annotations

import pytest

from tests.transport.http2.certificates import Certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))
