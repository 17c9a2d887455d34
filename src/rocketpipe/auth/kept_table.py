"""Values by name that a server lets people in by: in memory, on the disk, and at its replicas.

Several processes may have the same directory, as the brokers of ``serve --brokers`` do: each looks
every now and then whether another one has put a file in the place of the one it knows.
"""

from __future__ import annotations

import logging
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from rocketpipe.auth.subject import SUBJECT_PREFIX
from rocketpipe.errors import RocketPipeError
from rocketpipe.store.files.disk import Disk, DiskError
from rocketpipe.store.files.snapshot import Snapshot, SnapshotDamaged

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

ValueT = TypeVar("ValueT")

log = logging.getLogger(__name__)


class AuthFileUnusable(RocketPipeError):
    """A file of users or policies that a server must not start with."""

    def __init__(self, path: Path, reason: str, hint: str) -> None:
        super().__init__(f"{path}: {reason}: {hint}")
        self.path = path
        self.hint = hint


class AuthTableFull(RocketPipeError):
    """One more user or entry than there may be."""


class AuthLent(RocketPipeError):
    """A user, or rights, that a file has which others write: there alone they change."""

    def __init__(self, name: str, lender: str) -> None:
        super().__init__(f"{SUBJECT_PREFIX}{name} is an account of {lender}: change it there")


class KeptTable(Generic[ValueT]):
    """Values by name, in memory and on the disk; changes may come from any thread."""

    file_name: str
    what: str

    def __init__(self, values: Mapping[str, ValueT], snapshot: Snapshot | None) -> None:
        self._own = dict(values)
        #: What a file of somebody else says, which counts before what is kept here.
        self._lent: dict[str, ValueT] = {}
        self._lender = ""
        self._values = dict(self._own)
        self._snapshot = snapshot
        self._changing = threading.Lock()
        #: Another object after each change, and how many there were.
        self.version: object = object()
        self.changes = 0
        self._seen = self._stamp()
        #: What changed and was not told to the replicas yet; None while there are none to tell.
        self._news: set[str] | None = None
        self._noting = threading.Lock()
        #: Whether memory has what the disk has not, and whether somebody has gone since.
        self._is_unsaved = self._is_less = False

    @property
    def place(self) -> Path | None:
        """The directory of its file, if it is kept."""
        return None if self._snapshot is None else self._snapshot.path.parent

    @classmethod
    def in_memory(cls, *values: ValueT) -> Any:
        """A table that nobody keeps."""
        return cls({cls._name(value): value for value in values}, None)

    @classmethod
    def opened(cls, disk: Disk, directory: Path) -> Any:
        """Read the table of a directory; an empty one if there is none.

        Raises:
            AuthFileUnusable: If it is damaged, or others may read it.
            DiskError: If the disk refuses.
        """
        path = directory / cls.file_name
        try:
            mode = path.stat().st_mode
        except OSError:
            mode = 0
        if mode & _OTHERS:
            raise AuthFileUnusable(
                path,
                f"others may read or change it (mode {stat.S_IMODE(mode):04o})",
                f"chmod 600 {path}, and change the secrets that somebody may have seen",
            )
        snapshot = Snapshot(disk, path)
        try:
            values = snapshot.load(cls._read, fall_back=False)
        except SnapshotDamaged as damage:
            raise AuthFileUnusable(
                path,
                str(damage),
                f"mend it, restore a copy of your own, or take {path.name}.bak if nobody was "
                "removed since",
            ) from damage
        return cls(values or {}, snapshot)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, name: str) -> ValueT | None:
        return self._values.get(name)

    def kept_names(self) -> list[str]:
        """The names of those that are on our disk."""
        return list(self._own)

    def kept_as(self, name: str) -> ValueT | None:
        """The value of a name that is on our disk, whatever a file of others says."""
        return self._own.get(name)

    @classmethod
    def encode(cls, values: Mapping[str, ValueT]) -> bytes:
        """Values as the file has them."""
        return cls._write(values)

    @classmethod
    def decode(cls, text: bytes) -> dict[str, ValueT]:
        """The values of such a text.

        Raises:
            msgspec.MsgspecError: It is none.
        """
        return cls._read(text)

    def all(self) -> list[ValueT]:
        """Every value, in the order of their names."""
        return [value for _, value in sorted(self._values.items())]

    def kept(self) -> list[ValueT]:
        """Those that are on our disk, in the order of their names."""
        return [value for _, value in sorted(self._own.items())]

    def put(self, value: ValueT) -> None:
        """Take a value in, in the place of the one of that name.

        Raises:
            AuthTableFull: If there is no room for it.
            AuthLent: If a file of others has it.
            DiskError: If it could not be kept; nothing has changed then.
        """
        self.change(lambda values: {**values, self._name(value): value})

    def put_all(self, values: Iterable[ValueT]) -> None:
        """Take values in, all or none; see `put`."""
        new = {self._name(value): value for value in values}
        self.change(lambda known: {**known, **new})

    def remove(self, name: str) -> bool:
        """Forget a value; tells whether there was one.

        Raises:
            DiskError: If that could not be kept; nothing has changed then.
        """
        if name not in self._values:
            return False
        self._refuse_lent([name])
        # Twice: else the version before would keep what was removed.
        self.change(
            lambda values: {each: value for each, value in values.items() if each != name}, times=2
        )
        return True

    def change(
        self, change: Callable[[dict[str, ValueT]], dict[str, ValueT]], *, times: int = 1
    ) -> None:
        """Put other values in the place of these; in force once they are on the disk.

        Raises:
            AuthTableFull: If they are too many.
            AuthLent: If a file of others has one that would change.
            DiskError: If they could not be kept; nothing has changed then.
        """
        with self._changing:
            self._reread()
            values = change(self._own)
            self._refuse_lent(
                name for name in self._lent if values.get(name) is not self._own.get(name)
            )
            self._check(values)
            self._save(values, times)
            self._take(values)

    def lend(self, values: Iterable[ValueT], lender: str) -> None:
        """Have these count too, before those that are kept, until others are lent.

        They are on no disk of ours, and at no replica: ``lender`` is the file that has them, and
        to change them here is refused.
        """
        with self._changing:
            self._lent = {self._name(value): value for value in values}
            self._lender = lender
            self._take(self._own)

    def _refuse_lent(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._lent:
                raise AuthLent(name.removeprefix(SUBJECT_PREFIX), self._lender)

    # Another process's changes

    @property
    def is_behind(self) -> bool:
        """Whether another process has put a file in the place of the one that is known."""
        return self._stamp() != self._seen

    def look(self) -> bool:
        """Take over what another process has put in the file's place; tells whether one has.

        It costs nothing as long as none has.
        """
        if not self.is_behind or not self._changing.acquire(blocking=False):
            return False
        try:
            return self._reread()
        finally:
            self._changing.release()

    def _reread(self) -> bool:
        seen = self._stamp()
        if seen == self._seen or self._snapshot is None:
            return False
        self._seen = seen
        try:
            values = self._snapshot.load(self._read, fall_back=False)
        except (SnapshotDamaged, DiskError) as error:
            log.error("%s stay as they were: %s", self.what, error)
            return False
        if values is None:
            log.error("%s stay as they were: %s is gone", self.what, self._snapshot.path)
            return False
        self._take(values)
        return True

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._snapshot.path.stat() if self._snapshot is not None else None
        except OSError:
            found = None
        return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)

    # Replicas

    def watch(self, wanted: bool = True) -> None:
        """Note from now on what changes, or no more."""
        with self._noting:
            self._news = set() if wanted else None

    @property
    def has_news(self) -> bool:
        """Whether something changed since it was last asked."""
        return bool(self._news)

    def take_news(self) -> set[str]:
        """The names of what changed since."""
        with self._noting:
            news, self._news = self._news, None if self._news is None else set()
        return news or set()

    def put_news_back(self, names: set[str]) -> None:
        """Have them told again."""
        with self._noting:
            if self._news is not None:
                self._news |= names

    def replicate(self, put: Iterable[ValueT], gone: Iterable[str]) -> None:
        """Have what a leader has, at once; `save_replicated` brings it to the disk."""
        without = set(gone)
        with self._changing:
            left = {name: value for name, value in self._own.items() if name not in without}
            values = {**left, **{self._name(value): value for value in put}}
            if values == self._own:
                return
            self._is_less |= not self._own.keys() <= values.keys()
            self._is_unsaved = True
            self._take(values)

    def save_replicated(self) -> None:
        """Bring what was replicated to the disk.

        Raises:
            DiskError: It could not be; it is tried again the next time.
        """
        with self._changing:
            if self._is_unsaved:
                self._save(self._own, 2 if self._is_less else 1)

    def _save(self, values: dict[str, ValueT], times: int) -> None:
        if self._snapshot is not None:
            for _ in range(times):
                self._snapshot.save(self._write(values))
        self._is_unsaved = self._is_less = False
        self._seen = self._stamp()

    def _take(self, values: dict[str, ValueT]) -> None:
        before, self._own = self._own, values
        self._values = {**values, **self._lent}
        self.version = object()
        self.changes += 1
        with self._noting:
            if self._news is not None:
                every = before.keys() | values.keys()
                self._news |= {each for each in every if before.get(each) != values.get(each)}

    @staticmethod
    def _name(value: Any) -> str:
        raise NotImplementedError

    @staticmethod
    def _check(values: dict[str, Any]) -> None:
        raise NotImplementedError

    @staticmethod
    def _read(text: bytes) -> dict[str, Any]:
        raise NotImplementedError

    @staticmethod
    def _write(values: Mapping[str, Any]) -> bytes:
        raise NotImplementedError
