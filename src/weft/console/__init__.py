"""The console: the mesh in a browser, served by every node on its admin port (SEE-01).

Read in this order: ``sessions`` (who is signed in; pure), ``guard`` (which requests are answered, with whose rights),
``asking`` (the same questions to this node and to others), ``views`` (their answers as JSON; pure), ``events`` (the
event browser), ``streaming`` (live figures and the tail of a pattern), ``app`` (the routes). The pages are in
``static``: plain HTML, CSS and ES modules, without a build step.

Nothing here decides about rights. Every call is made with the rights of the key that signed in, by the same methods
that serve gRPC clients.
"""
