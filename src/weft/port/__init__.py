"""The node as its services and gateways see it: what they may ask of it, with whose rights, and how it refuses.

    node.py        the node itself: publish, subscribe, look into the log
    access.py      who calls, and what they may do
    errors.py      refusals, and their codes
    quotas.py      how much a caller may make and send
    pages.py       replies that grow with the mesh, a page at a time
    topics.py      which topics there are, and which clients may publish to
    held.py        how much memory callers make the node hold, by caller

Nothing here knows how a client is connected: ``transport.clients`` serves gRPC, ``gateway`` everything else.
"""
