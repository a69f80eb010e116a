"""Rows for columnar targets: a call of a columnar decoder costs about the same for one row as for many."""

from __future__ import annotations


def pieces(data: bytes, header_bytes: int) -> list[bytes]:
    """The datagram, and eight things that could become of it."""
    half = len(data) // 2
    body = data[header_bytes:]
    return [
        data,
        data[1:],
        data[:-1],
        data[:half],
        data[half:],
        body,
        data[:header_bytes] + body[2:],
        data + body[-2:],
        data * 2,
    ]
