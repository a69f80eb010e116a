"""``weft emm``: ``commands`` has its options, ``work`` does it; ``compact`` and ``compact_work`` do so for EMM-C."""
