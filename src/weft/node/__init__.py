"""A node: its configuration, what it tells about itself, and the runtime that performs what ``core`` decides.

- ``config`` and ``config_loading``: every knob with its range; ``weft.toml``, environment and flags. ``identity``: who
  the node is. ``addresses``: HOST:PORT.
- ``metrics``, ``logs``, ``tracing``: what it tells; ``admin_http`` serves it.
"""
