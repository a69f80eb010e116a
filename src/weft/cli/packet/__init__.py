"""``weft packet``: ``commands`` has its options; ``input`` finds the bytes, ``output`` shows them taken apart."""
