"""Whether one more message may come in now: a broker that cannot keep up says so early.

    this broker does not lead                     14 SERVICE_NOT_AVAILABLE, with the leader
    before the time that it was told to begin     1  SYSTEM_ERROR
    too few replicas are in sync                  1  SYSTEM_ERROR
    disk above its watermark, failed, closed      14 SERVICE_NOT_AVAILABLE, with the store's reason
    too many wait for a sync, or for replicas     2  SYSTEM_BUSY
    consumers are shown too little of the log     2  SYSTEM_BUSY

Producers try another broker on any of the three codes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from rocketpipe.broker.intake.visibility import Visibility
from rocketpipe.broker.replication.standing import Acknowledging, Refusal, Standing
from rocketpipe.clock import Clock
from rocketpipe.errors import StoreError
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.store.config import FlushMode
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.state.health import StoreState

# Java producers log these words, and operators look for them.
BUSY: Final = "[REJECTREQUEST]system busy, start flow control for a while"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    """How much may be under way before a send is refused."""

    #: Sends that wait for their sync, or for replicas.
    waiting_sends: int = 10_000
    #: Bytes that were appended and not synced, or not acknowledged, where each send waits for it.
    unsynced_bytes: int = 48 << 20
    #: Bytes of the log that are confirmed and that no consumer can see yet.
    behind_bytes: int = 256 << 20
    #: Sends before this time are refused.
    accept_from_ms: int = 0


class Admission:
    """Says no, and why, before anything is done for a request; asking costs next to nothing."""

    def __init__(
        self,
        store: MessageStore,
        visibility: Visibility,
        clock: Clock,
        limits: AdmissionLimits | None = None,
        standing: Standing | None = None,
    ) -> None:
        self._store = store
        self._visibility = visibility
        self._clock = clock
        self._standing = standing or Standing()
        self._limits = limits or AdmissionLimits()
        self._sync = store.config.flush is FlushMode.SYNC

    def accept_from(self, moment_ms: int) -> None:
        """Refuse sends before a moment, from now on."""
        self._limits = replace(self._limits, accept_from_ms=moment_ms)

    def refusal(self) -> Refusal | None:
        """The code and the remark to refuse a send with; None to let it in."""
        limits, standing = self._limits, self._standing
        if standing.refusal is not None:
            return standing.refusal
        if limits.accept_from_ms and self._clock.now_ms() < limits.accept_from_ms:
            return ResponseCode.SYSTEM_ERROR, _until(limits.accept_from_ms)
        if self._store.state is not StoreState.RUNNING:
            # A store without room tries again with each append, so not every state is a no.
            try:
                self._store.health.check_append()
            except StoreError as error:
                return ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {error}"
        if self._sync:
            if self._visibility.waiting >= limits.waiting_sends:
                return _busy(f"{self._visibility.waiting} sends wait for the disk")
            positions = self._store.positions
            unsynced = positions.written - positions.durable
            if unsynced >= limits.unsynced_bytes:
                return _busy(f"{unsynced} bytes wait for the disk")
        if standing.followers is not None:
            refusal = standing.followers.refusal() or self._unacknowledged(standing.followers)
            if refusal is not None:
                return refusal
        behind = self._store.behind_bytes
        if behind >= limits.behind_bytes:
            return _busy(f"{behind} bytes are stored and not shown to consumers yet")
        return None

    def _unacknowledged(self, followers: Acknowledging) -> Refusal | None:
        if followers.waiting >= self._limits.waiting_sends:
            return _busy(f"{followers.waiting} sends wait for replicas")
        positions = self._store.positions
        acknowledged = positions.acknowledged
        bytes_waiting = 0 if acknowledged is None else positions.written - acknowledged
        if bytes_waiting >= self._limits.unsynced_bytes:
            return _busy(f"{bytes_waiting} bytes wait for replicas")
        return None


def _busy(why: str) -> Refusal:
    return ResponseCode.SYSTEM_BUSY, f"{BUSY}: {why}"


def _until(moment_ms: int) -> str:
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return f"broker unable to service, until {moment:%Y-%m-%d %H:%M:%S} UTC"
