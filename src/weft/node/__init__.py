"""A node: its configuration, what it reports about itself, and the runtime that performs what ``core`` decides.

- ``config`` and ``config_loading``: every knob with its range; ``weft.toml``, environment and flags. ``identity``: the
  node's id. ``addresses``: HOST:PORT.
- ``metrics``, ``logs``: what it reports; ``admin_http`` serves the metrics.
- ``runtime``: the node itself, put together, started and drained. ``engine`` drives the state machines of ``core`` and
  ``membership``; ``storage`` and ``maintenance`` are the threads of the log; ``clients`` and ``peers`` stand between
  the engine and its connections; ``answers`` has the answers for operators; ``wiring`` translates the configuration for
  each part; ``incarnation`` numbers the node's lives.
- ``protection``: plain text, or certificates (``enrolling`` gets the first one) and API keys; ``refusals`` counts
  refusals.
"""
