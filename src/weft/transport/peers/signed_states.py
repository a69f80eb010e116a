"""What nodes say about themselves, signed. It is checked before anybody believes it, whichever peer brought it
(SEC-06)."""

from __future__ import annotations

from typing import Final

from weft.membership import NodeState, Signed
from weft.security.notary import Notary
from weft.transport.peers.member_messages import state_message

PURPOSE: Final = b"weft: a node of itself\0"
GENUINE_KEPT_MAX: Final = 4096  # states found genuine are cached, because several peers bring the same one


class StateNotary:
    """One per node, for all of its links."""

    def __init__(self, notary: Notary) -> None:
        self._notary = notary
        self._genuine: dict[Signed, None] = {}

    @property
    def signs(self) -> bool:
        return self._notary.signs

    def sign(self, state: NodeState) -> Signed | None:
        """For the node itself; None in a mesh without keys."""
        if not self._notary.signs:
            return None
        content = state_message(state).SerializeToString(deterministic=True)
        return Signed(content, self._notary.sign(PURPOSE + content))

    def is_genuine_untrusted(self, node_id: str, signed: Signed) -> bool:
        """Whether this node has really said that about itself."""
        if signed in self._genuine:
            return True  # then it was from this node
        if not self._notary.is_signed_untrusted(node_id, PURPOSE + signed.content, signed.signature):
            return False
        self._genuine[signed] = None
        if len(self._genuine) > GENUINE_KEPT_MAX:
            del self._genuine[next(iter(self._genuine))]
        return True
