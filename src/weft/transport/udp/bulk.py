"""Receiving many datagrams with one system call: Linux's recvmmsg, through ctypes.

Calling recvmsg for each datagram takes 1.6 times as long. Here the kernel fills a block of buffers. Values that many
datagrams share (addresses, marks) are looked up by their bytes, so each is parsed only once.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from typing import Any, Final

import numpy as np

from weft.transport.udp.marks import CONTROL_BYTES_MAX, Control, Marks
from weft.wire.udp import Address, Datagrams

UDP_SOURCES_KEPT: Final = 65_536  # cached addresses, about 15 MiB; when there are more, the cache is emptied
NAME_BYTES: Final = 28  # sockaddr_in6, the longer of the two
# family:u16 port:u16 (big-endian) address:4 bytes
IPV4_NAME: Final = struct.Struct("=2s2s4s")
# family:u16 port:u16 flow:u32 (both big-endian) address:16 bytes scope:u32
IPV6_NAME: Final = struct.Struct("=2s2s4s16sI")
# length:size_t level:int type:int, then the value, all aligned to the size of a size_t
CONTROL_HEAD: Final = struct.Struct("@Nii")
ALIGNMENT: Final = struct.calcsize("@N")


class Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Header(ctypes.Structure):
    """struct msghdr."""

    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_bytes", ctypes.c_uint32),
        ("vectors", ctypes.c_void_p),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class Message(ctypes.Structure):
    """struct mmsghdr: a header, and how many bytes came."""

    _anonymous_ = ("header",)
    _fields_ = [("header", Header), ("length", ctypes.c_uint)]


class BulkReceiver:
    """The receiving side of one socket."""

    def __init__(self, bound: socket.socket, marks: Marks, datagrams_max: int, datagram_bytes_max: int) -> None:
        """Datagrams longer than ``datagram_bytes_max`` are cut to it."""
        self._file = bound.fileno()
        self._is_ipv6 = bound.family == socket.AF_INET6
        self._marks = marks
        self._count = datagrams_max
        self._stride = datagram_bytes_max
        self._data = ctypes.create_string_buffer(datagrams_max * datagram_bytes_max)
        self._names = ctypes.create_string_buffer(datagrams_max * NAME_BYTES)
        self._controls = ctypes.create_string_buffer(datagrams_max * CONTROL_BYTES_MAX)
        self._vectors = (Vector * datagrams_max)()
        self._messages = (Message * datagrams_max)()
        self._call: Any = ctypes.CDLL(None, use_errno=True).recvmmsg
        self._lay_out()
        self._view = _numpy_view(self._messages)
        self._sources: dict[bytes, Address] = {}
        self._read_marks: dict[bytes, tuple[int, int]] = {}

    def _lay_out(self) -> None:
        data, names, controls = map(ctypes.addressof, (self._data, self._names, self._controls))
        for number, (vector, message) in enumerate(zip(self._vectors, self._messages, strict=True)):
            vector.base, vector.length = data + number * self._stride, self._stride
            message.name, message.name_bytes = names + number * NAME_BYTES, NAME_BYTES
            message.vectors = ctypes.addressof(self._vectors) + number * ctypes.sizeof(Vector)
            message.vector_count = 1
            message.control = controls + number * CONTROL_BYTES_MAX
            message.control_bytes = CONTROL_BYTES_MAX

    def receive(self) -> Datagrams:
        """Receive the datagrams that wait; return none if none waits. Raise OSError as recvmsg does, except
        BlockingIOError."""
        count = self._call(self._file, self._messages, self._count, socket.MSG_DONTWAIT, None)
        if count < 0:
            code = ctypes.get_errno()
            if code in (errno.EAGAIN, errno.EINTR):
                return Datagrams([], [], [], [])
            raise OSError(code, os.strerror(code))
        view = self._view[:count]
        received = self._received(count, view["length"].tolist(), view["control_bytes"].tolist())
        view["name_bytes"] = NAME_BYTES
        view["control_bytes"] = CONTROL_BYTES_MAX
        return received

    def _received(self, count: int, lengths: list[int], control_lengths: list[int]) -> Datagrams:
        names = _labels(self._names, count, NAME_BYTES, [NAME_BYTES] * count)
        controls = _labels(self._controls, count, CONTROL_BYTES_MAX, control_lengths)
        self._learn(set(names), set(controls))
        marks = [self._read_marks[control] for control in controls]
        return Datagrams(
            _cells(self._data, count, self._stride, lengths),
            [self._sources[name] for name in names],
            [ttl for ttl, _ in marks],
            [tos for _, tos in marks],
        )

    def _learn(self, names: set[bytes], controls: set[bytes]) -> None:
        """Parse the addresses and marks that are not cached yet."""
        if len(self._sources) + len(names) > UDP_SOURCES_KEPT:
            self._sources.clear()
        for name in names - self._sources.keys():
            self._sources[name] = _address(name, self._is_ipv6)
        if len(self._read_marks) + len(controls) > UDP_SOURCES_KEPT:
            self._read_marks.clear()
        for control in controls - self._read_marks.keys():
            self._read_marks[control] = self._marks.read(_controls(control))


def _cells(buffer: Any, count: int, stride: int, lengths: list[int]) -> list[bytes]:
    """The content of each slot, cut from one copy of the buffer. If all have the same length, as usual, numpy does the
    cutting."""
    longest = max(lengths)
    if not longest:
        return [b""] * count
    slots = np.frombuffer(buffer, np.uint8, count * stride).reshape(count, stride)
    cells: list[bytes] = np.ascontiguousarray(slots[:, :longest]).view(f"V{longest}").ravel().tolist()
    if min(lengths) == longest:
        return cells
    return [cell[:length] for cell, length in zip(cells, lengths, strict=True)]


def _labels(buffer: Any, count: int, stride: int, lengths: list[int]) -> list[bytes]:
    """Like ``_cells``, for slots that often all have the same content: then they share one value."""
    length = max(lengths)
    if min(lengths) == length:
        slots = np.frombuffer(buffer, np.uint8, count * stride).reshape(count, stride)[:, :length]
        if (slots == slots[0]).all():
            return [slots[0].tobytes()] * count
    return _cells(buffer, count, stride, lengths)


def _address(name: bytes, is_ipv6: bool) -> Address:
    if is_ipv6:
        _, port, flow, host, scope = IPV6_NAME.unpack_from(name)
        return socket.inet_ntop(socket.AF_INET6, host), int.from_bytes(port), int.from_bytes(flow), scope
    _, port, host = IPV4_NAME.unpack_from(name)
    return socket.inet_ntop(socket.AF_INET, host), int.from_bytes(port)


def _controls(data: bytes) -> list[Control]:
    """The control messages in a buffer that the kernel wrote."""
    found, at = [], 0
    while at + CONTROL_HEAD.size <= len(data):
        length, level, kind = CONTROL_HEAD.unpack_from(data, at)
        if length < CONTROL_HEAD.size:
            break
        found.append((level, kind, data[at + CONTROL_HEAD.size : at + length]))
        at += -(-length // ALIGNMENT) * ALIGNMENT
    return found


def _numpy_view(messages: Any) -> Any:
    """The fields that change, for all messages at once."""
    fields = {"name_bytes": np.uint32, "control_bytes": np.uint64, "length": np.uint32}
    layout = np.dtype(
        {
            "names": list(fields),
            "formats": list(fields.values()),
            "offsets": [getattr(Message, name).offset for name in fields],
            "itemsize": ctypes.sizeof(Message),
        }
    )
    return np.frombuffer(messages, layout)
