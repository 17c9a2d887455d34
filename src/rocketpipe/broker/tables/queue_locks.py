"""Which member of a group may consume a queue, where messages are consumed in order.

A lock lasts a minute, and its owner renews it three times in that minute. Who listens is told of
every queue that gets another owner, or none: `LockJournal` keeps them, and gives them back after a
restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from rocketpipe.broker.tables.limits import TableFull, TableLimits
from rocketpipe.model.route import MessageQueue

LOCK_MS: Final = 60_000

Changed: TypeAlias = Callable[[str, MessageQueue, str | None], None]


@dataclass(slots=True)
class _Lock:
    owner: str
    renewed_ms: int

    def is_over(self, now_ms: int) -> bool:
        return now_ms - self.renewed_ms > LOCK_MS


class QueueLocks:
    """Locks by group and queue; all times are those of the monotonic clock."""

    def __init__(self, limits: TableLimits | None = None) -> None:
        self._limits = limits or TableLimits()
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        self._changed: Changed = lambda *_: None
        #: Until then a queue without an owner may have one that nobody here knows.
        self._unsure_until_ms: int | None = None

    def listen(self, changed: Changed) -> None:
        """Have every change told: the group, the queue, and its owner or None."""
        self._changed = changed

    def restore(
        self, owners: Mapping[tuple[str, MessageQueue], str], now_ms: int, *, unsure: bool
    ) -> None:
        """Know again who owned what, and nothing else: as if each had just renewed it.

        Nobody is told.

        With ``unsure`` there may be other owners: they have the life of a lock to end.
        """
        self._locks = {}
        for (group, queue), owner in owners.items():
            self._locks.setdefault(group, {})[queue] = _Lock(owner, now_ms)
        self._unsure_until_ms = now_ms + LOCK_MS if unsure else None

    def lock(
        self,
        group: str,
        client_id: str,
        queues: Iterable[MessageQueue],
        now_ms: int,
        *,
        renew_only: bool = False,
    ) -> frozenset[MessageQueue]:
        """Lock queues for a member, or renew its locks; gives those that are its own now.

        With ``renew_only`` it gets none that it has not.

        Raises:
            TableFull: If there would be too many locks; nothing was locked or renewed.
        """
        wanted = frozenset(queues)
        if renew_only:
            held_here = self._locks.get(group, {})
            wanted = frozenset(
                queue
                for queue in wanted
                if queue in held_here and held_here[queue].owner == client_id
            )
        if not wanted:
            return wanted
        self._make_room(group, wanted, now_ms)
        locks = self._locks.setdefault(group, {})
        owned: set[MessageQueue] = set()
        unsure = self._unsure_until_ms is not None and now_ms <= self._unsure_until_ms
        for queue in wanted:
            held = locks.get(queue)
            if held is not None and held.owner == client_id:
                held.renewed_ms = now_ms
            elif held.is_over(now_ms) if held is not None else not unsure:
                locks[queue] = _Lock(client_id, now_ms)
                self._changed(group, queue, client_id)
            else:
                continue
            owned.add(queue)
        self._forget_if_empty(group)
        return frozenset(owned)

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give a member's locks back; a lock that is another's stays."""
        locks = self._locks.get(group)
        if locks is None:
            return
        for queue in queues:
            held = locks.get(queue)
            if held is not None and held.owner == client_id:
                del locks[queue]
                self._changed(group, queue, None)
        self._forget_if_empty(group)

    def unlock_all(self, group: str, client_id: str) -> None:
        """Give all locks of a member back that leaves its group."""
        self.unlock(group, client_id, list(self._locks.get(group, ())))

    def owner(self, group: str, queue: MessageQueue, now_ms: int) -> str | None:
        """The member that has a queue now, if any."""
        held = self._locks.get(group, {}).get(queue)
        return None if held is None or held.is_over(now_ms) else held.owner

    def holds_any(self, group: str, now_ms: int) -> bool:
        """Whether any member of the group has a lock that is not over."""
        locks = self._locks.get(group)
        if locks is None:
            return False
        return any(not held.is_over(now_ms) for held in locks.values())

    def expire(self, now_ms: int) -> int:
        """Forget the locks that are over; gives how many."""
        count = 0
        for group, locks in list(self._locks.items()):
            over = [queue for queue, held in locks.items() if held.is_over(now_ms)]
            for queue in over:
                del locks[queue]
                self._changed(group, queue, None)
            count += len(over)
            self._forget_if_empty(group)
        return count

    def _make_room(self, group: str, wanted: frozenset[MessageQueue], now_ms: int) -> None:
        limits = self._limits

        def too_many_locks() -> bool:
            locks = self._locks.get(group, {})
            return len(locks) + sum(queue not in locks for queue in wanted) > limits.locks

        def too_many_groups() -> bool:
            return group not in self._locks and len(self._locks) >= limits.online_groups

        if too_many_locks() or too_many_groups():
            self.expire(now_ms)
        if too_many_locks():
            raise TableFull(
                f"locked queues of group {group}",
                limits.locks,
                "have its members unlock what they do not consume",
            )
        if too_many_groups():
            raise TableFull(
                "groups that lock queues", limits.online_groups, "spread them over more brokers"
            )

    def _forget_if_empty(self, group: str) -> None:
        if not self._locks[group]:
            del self._locks[group]
