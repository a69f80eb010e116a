"""What nodes and clients say to each other over gRPC.

- ``peerlink.proto``: links between nodes, as the design document defines them, and what Weft adds.
- ``mesh.proto``: the services for clients and operators, and the messages about streams that both share.
- ``features``: handshakes. ``frames``, ``streams``: frames and streams from untrusted bytes. ``checks``: headers and
  signatures, and the one error.

``mesh_pb2`` and ``peerlink_pb2`` are generated (``make proto``) and checked in. The messages of ``peerlink.proto`` have
no package, as the document wants it, so only nodes import that module: in a client's process they could collide with
somebody else's ``Event``.
"""

from weft.wire.mesh.checks import BadMeshMessage

__all__ = ["BadMeshMessage"]
