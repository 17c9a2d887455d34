"""A disk in memory that fails as real ones do, and the same way again for the same seed.

    disk = SimDisk(seed=7)
    disk.fail(at=12, errno=errno.EIO)     the 12th operation from now fails
    disk.fail(only={"sync"}, path="log")  the next sync of a file with "log" in its path fails
    disk.cut_power(at=30)                 the 30th operation from now does not return: PowerCut
    disk.crash()                          power off and on: what was not synced is up for grabs
    disk.kill()                           the process dies: open files are gone, the cache is not
    SimDisk(capacity=1 << 20)             ENOSPC once a megabyte is taken

Files are as `sim_file` says. Names are durable once their directory was synced; of changes to names
that were not, a power cut keeps any part that leaves each name a past it really had. A rename
happens whole or not at all.

One thread at a time may use it.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from rocketpipe.store.files.disk import Disk, DiskError, DiskFile
from rocketpipe.testing.simulation.sim_fault import Fault, PowerCut, Progress
from rocketpipe.testing.simulation.sim_file import PAGE_BYTES, SimContent, SimFile

#: The operations that change something; the others only look.
CHANGES: Final = frozenset(
    {"create", "write", "preallocate", "truncate", "sync", "rename", "remove"}
    | {"make directory", "sync directory"}
)
#: What a disk without a capacity says that it has.
ENDLESS_BYTES: Final = 1 << 40


class _Directory:
    """A name that holds names."""


_Node = SimContent | _Directory
_Change = dict[Path, _Node | None]


class SimDisk(Disk):
    """Stands in for `Disk`; absolute paths, of which ``/`` alone is there at first."""

    def __init__(
        self,
        seed: int = 0,
        *,
        capacity: int | None = None,
        on_operation: Callable[[str, Path], None] = lambda operation, path: None,
    ) -> None:
        #: Called before each operation: the place to let time pass on a slow disk.
        self.on_operation = on_operation
        self.capacity = capacity
        self.chance = random.Random(seed)  # noqa: S311 - faults are to repeat, not to surprise
        #: Grows with every kill and crash; files that were open before cannot be used.
        self.life = 0
        #: What was asked of the disk, in order: the place to look when a seed fails.
        self.trace: list[tuple[str, Path]] = []
        #: Files of which a sync has failed, so that their cache and the platter may differ.
        self.failed_syncs: list[Path] = []
        self._names: dict[Path, _Node] = {Path("/"): _Directory()}
        #: The names in each directory; there are none until somebody asks for some.
        self._listings: dict[str, list[str]] = {}
        self._durable_names: dict[Path, _Node] = dict(self._names)
        self._changes: list[_Change] = []  # of names, not yet synced
        self._faults: list[Fault] = []
        self._off = False

    # Faults

    def fail(
        self,
        *,
        at: int = 1,
        errno: int = errno.EIO,
        only: Collection[str] = (),
        path: str = "",
        times: int = 1,
        progress: Progress = Progress.NONE,
    ) -> None:
        """Let the ``at``-th operation from now fail, of those in ``only`` and with ``path`` in it.

        ``times`` operations fail in a row. A failed sync is as bad as on Linux: see `sim_file`.
        """
        assert at >= 1
        self._faults.append(Fault(at, errno, only, path, times, progress, self.chance))

    def cut_power(self, *, at: int = 1, only: Collection[str] = ()) -> None:
        """Let `PowerCut` come out of the ``at``-th operation from now; then call `crash`."""
        assert at >= 1
        progress = self.chance.choice(list(Progress))
        self._faults.append(Fault(at, 0, only, "", 1, progress, self.chance, is_power_cut=True))

    def heal(self) -> bool:
        """Forget the faults that have not struck yet; whether there were any."""
        there_were = bool(self._faults)
        self._faults.clear()
        return there_were

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Let nothing fail for a while, nor count: for a look into the program under test."""
        faults, self._faults = self._faults, []
        asked = len(self.trace)
        try:
            yield
        finally:
            del self.trace[asked:]
            self._faults = faults

    def crash(self, keep: Literal["nothing", "everything"] | None = None) -> None:
        """Cut the power and turn it on again: what was not synced is kept, lost or torn.

        Chance decides, unless it is said what is to be kept.
        """
        self._lose_names(keep)
        kept = self._durable_names
        kept = {path: kept[path] for path in kept if all(up in kept for up in path.parents)}
        self._durable_names = kept
        self._names = dict(kept)
        self._listings.clear()
        for node in self._nodes():
            node.lose_power(self.chance, keep)
        self.kill()

    def kill(self) -> None:
        """End the process: files are no longer open; what was written stays in the cache.

        Faults that were to strike later still do.
        """
        self.life += 1
        self._off = False

    def _lose_names(self, keep: str | None) -> None:
        mood = keep or self.chance.choice(("nothing", "everything", "first", "any", "any"))
        kept = len(self._changes)
        if mood == "nothing":
            kept = 0
        elif mood == "first":
            kept = self.chance.randint(0, kept)
        lost: set[Path] = set()
        for change in self._changes[:kept]:
            missing = any(parent in lost for path in change for parent in path.parents)
            if missing or not lost.isdisjoint(change) or (mood == "any" and self._by_chance()):
                lost.update(change)
            else:
                _apply(change, self._durable_names)
        self._changes.clear()

    def _by_chance(self) -> bool:
        return self.chance.random() < 0.4

    # What SimFile asks for

    def step(self, operation: str, path: Path) -> None:
        """Count an operation that only looks.

        Raises:
            DiskError: it was to fail.
        """
        fault = self.begin(operation, path)
        if fault is not None:
            raise fault.error(operation, path)

    def begin(self, operation: str, path: Path) -> Fault | None:
        """Count an operation, and give the fault that it is to meet.

        Raises:
            PowerCut: the machine is off.
        """
        if self._off:
            raise PowerCut(f"{operation} {path} without power")
        self.on_operation(operation, path)
        self.trace.append((operation, path))
        if not self._faults:
            return None
        due = [fault for fault in self._faults if fault.meets(operation, path)]
        struck = due[0] if due else None
        if struck is not None:
            struck.times -= 1
            if struck.times <= 0:
                self._faults.remove(struck)
        if struck is not None and struck.is_power_cut:
            self._off = True
        return struck

    def claim(self, content: SimContent, at: int, size: int) -> int:
        """Take room for bytes of a file, and give how many of them there is room for."""
        wanted = range(at // PAGE_BYTES, -(-(at + size) // PAGE_BYTES))
        new = [page for page in wanted if page not in content.claimed]
        if self.capacity is None:
            content.claimed.update(new)
            return size
        free = max(0, self.free_bytes // PAGE_BYTES)
        content.claimed.update(new[:free])
        if free >= len(new):
            return size
        return max(0, new[free] * PAGE_BYTES - at)

    # Looking in from outside the program under test

    @property
    def operations(self) -> int:
        """How many operations were asked for so far."""
        return len(self.trace)

    @property
    def free_bytes(self) -> int:
        """What is left of the capacity, in whole pages."""
        assert self.capacity is not None
        return self.capacity - self._used_bytes()

    def files(self) -> list[Path]:
        """Every file's path, as the running system sees it."""
        return sorted(path for path, node in self._names.items() if isinstance(node, SimContent))

    def content(self, path: Path) -> bytes:
        """What a reader of the file sees, without counting as an operation."""
        return bytes(self._content("read", path).cached)

    def durable_content(self, path: Path) -> bytes | None:
        """What of the file is sure to survive a power cut; None if its name is not."""
        node = self._durable_names.get(path)
        return bytes(node.durable) if isinstance(node, SimContent) else None

    def put(self, path: Path, data: bytes) -> None:
        """Make a file be there with these bytes, durably, however it comes about."""
        for parent in reversed(path.parents):
            self._names.setdefault(parent, _Directory())
            self._durable_names.setdefault(parent, self._names[parent])
        self._names[path] = self._durable_names[path] = SimContent(data)
        self._listings.clear()

    def flip(self, path: Path, bit: int) -> None:
        """Turn one bit over, in the cache and on the platter, as a failing drive would."""
        content = self._content("flip", path)
        for data in (content.cached, content.durable):
            if bit // 8 < len(data):
                data[bit // 8] ^= 0x80 >> bit % 8

    def copy(self, seed: int = 0) -> SimDisk:
        """Give a disk with the same files, names and dirty writes, and no faults to come."""
        twins: dict[_Node, _Node] = {}

        def twin(node: _Node) -> _Node:
            if node not in twins:
                twins[node] = node.copy() if isinstance(node, SimContent) else node
            return twins[node]

        disk = SimDisk(seed, capacity=self.capacity)
        disk._names = {path: twin(node) for path, node in self._names.items()}
        disk._durable_names = {path: twin(node) for path, node in self._durable_names.items()}
        disk._changes = [
            {path: node and twin(node) for path, node in change.items()} for change in self._changes
        ]
        return disk

    def _used_bytes(self) -> int:
        return PAGE_BYTES * sum(len(node.claimed) for node in self._nodes())

    def _nodes(self) -> list[SimContent]:
        """Each file that has a name, once."""
        named = dict.fromkeys(self._names.values())
        return [node for node in named if isinstance(node, SimContent)]

    # Disk

    def open(self, path: Path, *, writable: bool = True) -> DiskFile:
        self.step("open", path)
        return SimFile(path, self, self._content("open", path), writable=writable)

    def create(self, path: Path) -> DiskFile:
        def check() -> None:
            self._check_parent("create", path)
            if path in self._names:
                raise _refusal("create", path, errno.EEXIST)

        content = SimContent()
        self._change("create", path, check, lambda: {path: content})
        return SimFile(path, self, content, writable=True)

    def rename(self, old: Path, new: Path) -> None:
        def check() -> None:
            self._check_parent("rename", old)
            self._check_parent("rename", new)
            if old not in self._names:
                raise _refusal("rename", old, errno.ENOENT)
            if isinstance(self._names[old], _Directory) or isinstance(
                self._names.get(new), _Directory
            ):
                # The store renames no directories; the names below would have to move too.
                raise _refusal("rename", old, errno.EISDIR)

        self._change("rename", old, check, lambda: {old: None, new: self._names[old]})

    def remove(self, path: Path) -> None:
        self._change(
            "remove", path, lambda: bool(self._content("remove", path)), lambda: {path: None}
        )

    def names(self, directory: Path) -> list[str]:
        self.step("list", directory)
        self._check_directory("list", directory)
        if not self._listings:
            self._listings = self._all_listings()
        return sorted(self._listings.get(str(directory), ()))

    def _all_listings(self) -> dict[str, list[str]]:
        listings: dict[str, list[str]] = {"/": []}
        for path in map(str, self._names):  # text is quicker than paths, and this runs often
            above, _, name = path.rpartition("/")
            if name:
                listings.setdefault(above or "/", []).append(name)
        return listings

    def make_directory(self, path: Path, *, durable: bool = True) -> list[Path]:
        parents = []
        for step in (*reversed(path.parents), path):
            if isinstance(self._names.get(step), _Directory):
                continue
            self._make_one_directory(step)
            if durable:
                self.sync_directory(step.parent)
            else:
                parents.append(step.parent)
        return parents

    def _make_one_directory(self, path: Path) -> None:
        def check() -> None:
            if path in self._names:
                raise _refusal("make directory", path, errno.ENOTDIR)

        self._change("make directory", path, check, lambda: {path: _Directory()})

    def modified_ns(self, path: Path) -> int:
        """The place among all names: they are in the order in which they were made."""
        self._content("look at", path)
        return list(self._names).index(path)

    def everything(self, directory: Path) -> None:
        """Nothing syncs all files at once here: each is, and may fail by itself."""

    def usage(self, path: Path) -> tuple[int, int, int]:
        self.step("usage of", path)
        if path not in self._names:
            raise _refusal("usage of", path, errno.ENOENT)
        used = self._used_bytes()
        total = ENDLESS_BYTES if self.capacity is None else self.capacity
        return total, used, max(0, total - used)

    def sync_directory(self, directory: Path) -> None:
        fault = self.begin("sync directory", directory)
        self._check_directory("sync directory", directory)
        if fault is None or fault.took_effect:
            self._sync_names(directory)
        if fault is not None:
            raise fault.error("sync directory", directory)

    def _sync_names(self, directory: Path) -> None:
        due: set[int] = set()
        touched: set[Path] = set()
        # From the last change to the first: what a due change builds on is due as well.
        for number in range(len(self._changes) - 1, -1, -1):
            change = self._changes[number]
            if not touched.isdisjoint(change) or any(path.parent == directory for path in change):
                due.add(number)
                touched.update(change)
        for number in sorted(due):
            _apply(self._changes[number], self._durable_names)
        self._changes = [change for number, change in enumerate(self._changes) if number not in due]

    def _change(
        self,
        operation: str,
        path: Path,
        check: Callable[[], object],
        change: Callable[[], _Change],
    ) -> None:
        fault = self.begin(operation, path)
        check()
        if fault is None or fault.took_effect:
            changed = change()
            _apply(changed, self._names)
            self._note_listings(changed)
            self._changes.append(changed)
        if fault is not None:
            raise fault.error(operation, path)

    def _note_listings(self, changed: _Change) -> None:
        if not self._listings:
            return
        for path, node in changed.items():
            names = self._listings.setdefault(str(path.parent), [])
            if path.name in names:
                names.remove(path.name)
            if node is not None:
                names.append(path.name)

    def _content(self, operation: str, path: Path) -> SimContent:
        node = self._names.get(path)
        if isinstance(node, SimContent):
            return node
        self._check_parent(operation, path)
        raise _refusal(operation, path, errno.EISDIR if node else errno.ENOENT)

    def _check_parent(self, operation: str, path: Path) -> None:
        if isinstance(self._names.get(path.parent), _Directory):
            return  # directories are never removed, so those above it are there too
        for up in reversed(path.parents):
            node = self._names.get(up)
            if not isinstance(node, _Directory):
                raise _refusal(operation, path, errno.ENOTDIR if node else errno.ENOENT)

    def _check_directory(self, operation: str, path: Path) -> None:
        node = self._names.get(path)
        if not isinstance(node, _Directory):
            raise _refusal(operation, path, errno.ENOTDIR if node else errno.ENOENT)


def _apply(change: _Change, names: dict[Path, _Node]) -> None:
    for path, node in change.items():
        if node is None:
            names.pop(path, None)
        else:
            names[path] = node


def _refusal(operation: str, path: Path, number: int) -> DiskError:
    return DiskError(operation, path, OSError(number, os.strerror(number)))
