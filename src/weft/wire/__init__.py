"""Bytes to values and back. No I/O, no clock, no randomness of its own; protocols do not know each other."""
