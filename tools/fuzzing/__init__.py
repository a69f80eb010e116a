"""The fuzzer behind ``make fuzz`` (see tools/fuzz.py for the command).

- ``targets``: finds the functions to attack in tests/fuzz/targets_*.py.
- ``mutator``: makes the inputs, repeatably.
- ``worker``: a process that feeds inputs to a target and tells what went wrong.
- ``supervisor``: watches the workers, so that a hang, a crash of the interpreter or a greedy allocation is a finding
  like any other and the run goes on.
"""
