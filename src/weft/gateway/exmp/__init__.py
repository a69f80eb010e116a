"""EXMP joined to the mesh: every program that can write JSON to a socket can publish and subscribe (EXM-11,
docs/exmp.md).

- ``gateway``     the ports of a node, TCP and TLS
- ``session``     one connection: when each request begins; answers are in order
- ``publishing``  events of all connections gathered into batches
- ``feed``        a subscription: events as requests, their answers as acknowledgements
- ``operations``  authenticate, fetch, subscribe, unsubscribe, topics, status
- ``admission``   who a client is;  ``figures``  what is counted
- ``values``      JSON and back;  ``failures``  errors as EXMP clients get them
"""
