"""The parts of ``packets``: decoding EMM and EMM-C datagrams, judging them, and finding replays, in Spark."""
