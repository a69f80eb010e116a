"""The node as its services and gateways see it: what they may ask of it, with which rights, and how it refuses.

    node.py        the node itself: publishing, subscribing, reading the log
    access.py      who is calling, and what they may do
    errors.py      refusals, and their codes
    quotas.py      how much a caller may make and send
    pages.py       replies that grow with the mesh, a page at a time
    topics.py      which topics exist, and to which clients may publish
    held.py        how much memory each caller makes the node hold

Nothing here knows how a client is connected: ``transport.clients`` serves gRPC, ``gateway`` everything else.
"""
