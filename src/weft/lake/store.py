"""Files of a table, wherever it is: one small set of operations, on a directory and on an object store.

Paths are relative to the table, with slashes. The two differ in what an operation promises:

- ``writer``: when the writer is closed, the file is there, complete and durable. In a store the file is not visible
  before that. In a directory it is, so a file gets a name that no reader looks at while it is being written.
- ``swap``: compare and set. A directory uses a lock; a store uses a conditional put (If-Match, If-None-Match), which
  S3, Google and Azure all have. Exactly-once rests on this one step (ADR 42).
- ``move``: a rename in a directory. In a store, the store itself copies the file, and then it is removed. Repeating a
  move does no harm.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from weft.lake.access import Credentials, StoreAccess
from weft.lake.address import Address, TableError
from weft.limits import MIB

if TYPE_CHECKING:
    from obstore.store import ObjectStore

STORE_PART_BYTES: Final = 8 * MIB  # size of one part of an upload, held in memory; ten thousand parts make 80 GiB
STORE_PARTS_AT_A_TIME: Final = 4  # of one file
STORE_READ_BYTES: Final = 1 * MIB  # the least that one request asks for, however little is wanted
STORE_LIST_CHUNK: Final = 1000  # how many names a store gives in one answer
STORE_TIMEOUT: Final = timedelta(seconds=60)  # of one request: a part of 8 MiB over a slow line
STORE_RETRY_TIMEOUT: Final = timedelta(seconds=60)  # for one operation, retries included
STORE_RETRIES: Final = 8
CHECK_RETRY_TIMEOUT: Final = timedelta(seconds=5)  # before Spark starts: people are waiting
CHECK_RETRIES: Final = 2
ERROR_CHARS_MAX: Final = 200  # of a store's error text: the rest is XML
PARTIAL: Final = ".partial"
LOCK: Final = "lock"
PROBE: Final = "_weft_probe"  # hidden from readers, and removed at once


class StoreError(TableError):
    """A store cannot be reached, or refuses. The message says which store and why, and has no secrets."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Size and time of a file."""

    size_bytes: int
    written_s: float


@dataclass(frozen=True, slots=True)
class Content:
    """A file's content, and the version by which a store's ``swap`` checks that the file is unchanged."""

    data: bytes
    version: Any


class Store(Protocol):
    def check(self, *, writing: bool) -> None:
        """Raise StoreError if the place cannot be used; the check leaves nothing there."""

    def writer(self, path: str) -> IO[bytes]:
        """Open a new file for writing; nobody else uses its name."""

    def reader(self, path: str) -> IO[bytes]:
        """Open a file for reading from any position."""

    def read(self, path: str) -> Content | None:
        """A small file; None if there is none."""

    def swap(self, path: str, data: bytes, was: Content | None) -> bool:
        """Write a small file if its content is still ``was`` (None: if there is no file); False if it is not."""

    def move(self, source: str, target: str) -> None:
        """Give a file another name; does nothing if there is no such file."""

    def remove(self, path: str) -> None:
        """Remove a file; does nothing if there is no such file."""

    def facts(self, path: str) -> Facts | None:
        """Size and time of a file; None if there is none."""

    def files(self, below: str = "") -> Iterator[tuple[str, Facts]]:
        """All files, at any depth. Files that are removed during the listing are left out."""


def open_store(address: Address, access: StoreAccess) -> Store:
    """The store at this address; no request is made yet."""
    if address.is_directory:
        return Directory(Path(address.text))
    return Bucket(address, access.credentials(address.kind, os.environ))


# --- a directory -----------------------------------------------------------------------------------------------------


class Directory:
    """A directory that every user of the table can see."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def check(self, *, writing: bool) -> None:
        if not writing:
            return
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the directory {self._root}: {error.strerror}") from None
        if not os.access(self._root, os.R_OK | os.W_OK | os.X_OK):
            raise StoreError(f"cannot write to the directory {self._root}: permission denied")

    def writer(self, path: str) -> IO[bytes]:
        place = self._root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        opened = _SyncedFile(str(place), "wb")
        opened.place = place
        return opened

    def reader(self, path: str) -> IO[bytes]:
        return pa.OSFile(str(self._root / path))  # type: ignore[no-any-return]

    def read(self, path: str) -> Content | None:
        try:
            data = (self._root / path).read_bytes()
        except FileNotFoundError:
            return None
        return Content(data, None)

    def swap(self, path: str, data: bytes, was: Content | None) -> bool:
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with _alone(file.with_name(LOCK)):
            there = self.read(path)
            if (there and there.data) != (was and was.data):
                return False
            partial = file.with_name(f"{secrets.token_hex(8)}{PARTIAL}")
            partial.write_bytes(data)
            sync(partial)
            partial.replace(file)
            sync(file.parent)
        return True

    def move(self, source: str, target: str) -> None:
        place = self._root / target
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            (self._root / source).rename(place)
        except FileNotFoundError:
            return
        sync(place.parent)

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def facts(self, path: str) -> Facts | None:
        return _facts(self._root / path)

    def files(self, below: str = "") -> Iterator[tuple[str, Facts]]:
        for place, directories, names in os.walk(self._root / below):
            directories.sort()
            for name in sorted(names):
                file = Path(place, name)
                if facts := _facts(file):
                    yield file.relative_to(self._root).as_posix(), facts


class _SyncedFile(pa.OSFile):  # type: ignore[misc]
    """A file that is durable when it is closed, and so is its name: what a driver commits must survive a power cut. It
    is a subclass of Arrow's own file, so Arrow writes to it without calling Python."""

    place: Path

    def close(self) -> None:
        is_open = not self.closed
        super().close()
        if is_open:
            sync(self.place, self.place.parent)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold the lock, so that nobody else swaps. If the process dies, its lock is released."""
    with lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _facts(file: Path) -> Facts | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return Facts(found.st_size, found.st_mtime)


def sync(*places: Path) -> None:
    """Make files durable, or the names in a directory."""
    for each in places:
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# --- an object store -------------------------------------------------------------------------------------------------


class Bucket:
    """A place in S3, in Google Cloud Storage or in Azure, by ``obstore``."""

    def __init__(self, address: Address, credentials: Credentials) -> None:
        self._address = address
        self._credentials = credentials
        self._store = self._opened(STORE_RETRIES, STORE_RETRY_TIMEOUT)

    def check(self, *, writing: bool) -> None:
        import obstore

        quick = self._opened(CHECK_RETRIES, CHECK_RETRY_TIMEOUT)
        with self.translated("cannot be listed", "the bucket or container is not there"):
            next(iter(obstore.list(quick, chunk_size=1)), None)
        if writing:
            name = f"{PROBE}/{secrets.token_hex(8)}"
            with self.translated("cannot be written to", "the bucket or container is not there"):
                obstore.put(quick, name, b"", mode="create")
                obstore.delete(quick, name)

    def writer(self, path: str) -> IO[bytes]:
        import obstore

        with self.translated("cannot be written to"):
            opened = obstore.open_writer(
                self._store, path, buffer_size=STORE_PART_BYTES, max_concurrency=STORE_PARTS_AT_A_TIME
            )
        return _Upload(opened, self)  # type: ignore[return-value]

    def reader(self, path: str) -> IO[bytes]:
        import obstore

        with self.translated("cannot be read"):
            opened = obstore.open_reader(self._store, path, buffer_size=STORE_READ_BYTES)
        return _Download(opened, self)  # type: ignore[return-value]

    def read(self, path: str) -> Content | None:
        import obstore
        from obstore.exceptions import NotFoundError

        with self.translated("cannot be read"):
            try:
                found = obstore.get(self._store, path)
                version = {name: found.meta.get(name) for name in ("e_tag", "version") if found.meta.get(name)}
                return Content(bytes(found.bytes()), version)
            except (NotFoundError, FileNotFoundError):
                return None

    def swap(self, path: str, data: bytes, was: Content | None) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, NotFoundError, PreconditionError

        with self.translated("cannot be written to"):
            try:
                obstore.put(self._store, path, data, mode="create" if was is None else was.version, use_multipart=False)
            except (AlreadyExistsError, PreconditionError, NotFoundError):
                # If the answer to a put is lost, the put is retried, and then finds its own first try.
                there = self.read(path)
                return there is not None and there.data == data and (was is None or was.data != data)
        return True

    def move(self, source: str, target: str) -> None:
        import obstore
        from obstore.exceptions import NotFoundError

        with self.translated("cannot be written to"):
            try:
                obstore.copy(self._store, source, target)
            except (NotFoundError, FileNotFoundError):
                return
            obstore.delete(self._store, source)

    def remove(self, path: str) -> None:
        import obstore
        from obstore.exceptions import NotFoundError

        # S3 reports no error for a file that does not exist; others do.
        with self.translated("cannot be written to"), suppress(NotFoundError, FileNotFoundError):
            obstore.delete(self._store, path)

    def facts(self, path: str) -> Facts | None:
        import obstore
        from obstore.exceptions import NotFoundError

        with self.translated("cannot be read"):
            try:
                found = obstore.head(self._store, path)
            except (NotFoundError, FileNotFoundError):
                return None
        return Facts(found["size"], found["last_modified"].timestamp())

    def files(self, below: str = "") -> Iterator[tuple[str, Facts]]:
        import obstore

        with self.translated("cannot be listed"):
            found = [
                (each["path"], Facts(each["size"], each["last_modified"].timestamp()))
                for chunk in obstore.list(self._store, below or None, chunk_size=STORE_LIST_CHUNK)
                for each in chunk
            ]
        yield from sorted(found)

    def _opened(self, retries: int, retry_timeout: timedelta) -> ObjectStore:
        try:
            from obstore.store import from_url
        except ImportError:
            raise TableError("object stores need obstore here: pip install 'weft[stores]'") from None
        with self.translated("cannot be opened"):
            settings: dict[str, Any] = {
                "config": dict(self._credentials.values),
                "client_options": {"timeout": STORE_TIMEOUT, "allow_http": self._credentials.allows_http},
                "retry_config": {"max_retries": retries, "retry_timeout": retry_timeout},
            }
            opened: ObjectStore = from_url(self._address.text, **settings)
            return opened

    @contextmanager
    def translated(self, what: str, missing: str = "it is not there") -> Iterator[None]:
        """Turn any error of the store or the network into one sentence without secrets."""
        from obstore.exceptions import BaseError, NotFoundError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except (NotFoundError, FileNotFoundError):
            reason = missing
        except (PermissionDeniedError, PermissionError):
            reason = "the credentials do not allow it"
        except UnauthenticatedError:
            reason = "the credentials are not known there"
        except (BaseError, OSError, ValueError) as error:
            reason = self._reason(str(error), missing)
        else:
            return
        raise StoreError(f"the store {what}: {reason}", table=self._address.text) from None

    def _reason(self, text: str, missing: str) -> str:
        """The reason in the text of an error that has no class of its own."""
        if "NoSuchBucket" in text or "404 Not Found" in text:
            return missing
        if "error sending request" in text or "tcp connect" in text or "dns error" in text:
            return "no answer from the endpoint"
        if "InvalidAccessKeyId" in text or "SignatureDoesNotMatch" in text:
            return "the credentials are not known there"
        if "169.254.169.254" in text or "credential" in text.lower():
            return "no credentials were found: give them by the environment, a profile or [table.store]"
        return self._credentials.scrubbed(text.partition("\n")[0])[:ERROR_CHARS_MAX]


class _Download:
    """A file in a store, with the methods that Arrow needs to read from any position."""

    def __init__(self, opened: Any, bucket: Bucket) -> None:
        self._opened = opened
        self._bucket = bucket
        self.closed = False

    def read(self, size: int | None = None) -> bytes:
        with self._bucket.translated("cannot be read"):
            return bytes(self._opened.read(None if size is None or size < 0 else size))

    def seek(self, offset: int, whence: int = 0) -> int:
        found: int = self._opened.seek(offset, whence)
        return found

    def tell(self) -> int:
        found: int = self._opened.tell()
        return found

    def close(self) -> None:
        self.closed = True
        self._opened.close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


class _Upload:
    """A file being uploaded to a store: it is not visible until it is complete. It counts the bytes written."""

    def __init__(self, opened: Any, bucket: Bucket) -> None:
        self._opened = opened
        self._bucket = bucket
        self._size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        with self._bucket.translated("cannot be written to"):
            self._opened.write(data)
        size = memoryview(data).nbytes
        self._size += size
        return size

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Does nothing: a part is sent when it is full."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with self._bucket.translated("cannot be written to"):
                self._opened.close()

    def writable(self) -> bool:
        return True
