"""A node: its configuration, what it tells about itself, and the runtime that performs what ``core`` decides.

- ``config`` and ``config_loading``: every knob with its range; ``weft.toml``, environment and flags. ``identity``: who
  the node is. ``addresses``: HOST:PORT.
- ``metrics``, ``logs``: what it tells; ``admin_http`` serves it.
- ``runtime``: the node itself, put together, started and drained. ``engine`` drives the state machines of ``core`` and
  ``membership``; ``storage`` and ``maintenance`` are the threads of the log; ``clients`` and ``peers`` stand between
  the engine and those who are connected; ``answers`` is what operators ask for; ``wiring`` what the configuration means
  for each of them; ``incarnation`` which life of the node this is.
- ``protection``: plain text, or certificates (``enrolling`` gets the first one) and API keys; ``refusals`` counts who
  was turned away.
"""
