"""``weft log``: ``commands`` has its options; ``input`` reads what they say, ``output`` and ``stats`` show a log."""
