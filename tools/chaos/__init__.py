"""Chaos: a real mesh of ``weft up`` processes under load and faults, and a checker that shares no code with them.

- ``schedule``: seed -> timed faults. Pure.
- ``network``, ``disks``, ``clock``, ``nodes``: the mesh: network namespaces, small disks, clocks that jump, processes.
- ``faults``: does what the schedule says.
- ``doors``, ``door_*``: the load, one process for each door; all write down what they did (``journal``).
- ``collect``: after the faults, asks every node what it has.
- ``history``, ``checker``: read the journals and say what is wrong. They import nothing of weft.
- ``report``: what was done and seen, as Markdown and JSON.
"""
