"""Doors: how connections of strangers are let in, within bounds, on every port of a node (SEC-04).

A caller that has proved nothing must cost next to nothing. A connection that just came in is a stranger's, until its
port knows who is there: by an API key, a peer's certificate, or a finished handshake where there is nothing else to ask
for. Until then it may be closed to make room for others; after that it stays.

- ``keeper``       who gets in, and who has to go, and which addresses are one caller: pure, with time passed in
- ``accepting``    sockets that listen, with a door in front
- ``http``         the same for HTTP servers, which never know who is there, and must always answer
- ``descriptors``  how many connections the process can have: the log and the node itself come first
"""

from weft.doors.keeper import Door, Doorkeeper, DoorLimits, Guest, Reason, TurnedAway

__all__ = ["Door", "DoorLimits", "Doorkeeper", "Guest", "Reason", "TurnedAway"]
