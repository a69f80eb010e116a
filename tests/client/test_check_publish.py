"""Asking whether a client may publish, without publishing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from weft.client import BadRequest, TooLarge
from weft.client.blocking import Client
from weft.errors import WeftError
from weft.limits import WHOAMI_TOPICS_MAX
from weft.model import BadTopic
from weft.testing import blocking_mesh
from weft.wire.mesh import mesh_pb2 as pb


def ask(client: Client, topics: Sequence[str]) -> None:
    """As somebody might who does not check what it asks."""
    request = pb.WhoamiRequest(publish_to=topics)
    client._thread.run(client._inner._nodes.call("/weft.mesh.v1.Mesh/Whoami", request, pb.WhoamiReply))


@pytest.mark.req("SEC-02")
def test_any_number_of_topics_is_asked_about_in_questions_of_bounded_size() -> None:
    with blocking_mesh(1) as mesh, mesh.client() as client:
        client.check_publish([])
        client.check_publish([f"plant.t{number}" for number in range(2 * WHOAMI_TOPICS_MAX + 1)])
        assert client.topics("plant.*") == [], "nothing is published"
        with pytest.raises(BadTopic):
            client.check_publish(["plant..a"])
        hostile: tuple[tuple[list[str], type[WeftError], str], ...] = (
            (["a"] * (WHOAMI_TOPICS_MAX + 1), TooLarge, "too many topics"),
            (["a..b"], BadRequest, "token 2 is empty"),
            (["a.*"], BadRequest, "topic"),
        )
        for topics, kind, said in hostile:
            with pytest.raises(kind, match=said):
                ask(client, topics)
