"""The parts of ``packets``: EMM and EMM-C datagrams decoded, judged and looked for among replays, in Spark."""
