"""``archive`` in typed form: payloads as columns, exactly once, and dead letters for what cannot be kept.

- ``settings``: the tables ``[typed]`` and ``[dead_letters]`` of a pipeline's file.
- ``events``: what tasks make of events: rows of the table, and dead letters. Pure.
- ``tables``: both tables of a query, which grow with the schema.
- ``replaying``: puts dead letters that fit by now into the table.
"""
