"""Stories of the client are told twice: with the asyncio client, and with the blocking one."""

from __future__ import annotations

import pytest

from tests.client import story
from tests.client.blocking_as_async import ConnectingInThread


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """For modules that use the fixture; ``asyncio_only`` marks what differs on purpose."""
    if "either_client" in metafunc.fixturenames:
        is_alone = metafunc.definition.get_closest_marker("asyncio_only") is not None
        metafunc.parametrize("either_client", ["asyncio"] if is_alone else ["asyncio", "blocking"], indirect=True)


@pytest.fixture
def either_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "blocking":
        monkeypatch.setattr(story, "made_of", ConnectingInThread)
