"""How many files and connections this process may have open, and who gets how many of them.

    up to 200, fewer where there are few    kept: listening, logging, what this process connects to
    a quarter                               files of queues and index that a store keeps open
    an eighth, 256 at most                  files of its log
    the rest                                connections of peers

A server raises its own limit to what it is allowed, before anything else.
"""

from __future__ import annotations

import logging
import resource
from dataclasses import dataclass
from typing import Final

log = logging.getLogger(__name__)

#: Nobody needs more, and some systems take no higher number.
_MANY: Final = 1 << 20
_KEPT: Final = 200
_LOG_FILES: Final = 256


@dataclass(frozen=True, slots=True)
class Shares:
    """Who may have how many open."""

    store_files: int
    log_files: int
    connections: int


def limit() -> int:
    """How many this process may have open; a large number if there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MANY if soft == resource.RLIM_INFINITY else min(soft, _MANY)


def shares() -> Shares:
    """Share out what this process may have open now; each gets some, however few there are."""
    most = limit()
    kept = min(_KEPT, 40 + most // 16)
    store_files = max(8, most // 4)
    log_files = max(4, min(_LOG_FILES, most // 8))
    return Shares(store_files, log_files, max(1, most - kept - store_files - log_files))


def raise_limit() -> int:
    """Let this process open as many as it may be allowed to; gives how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY if hard == resource.RLIM_INFINITY else min(hard, _MANY)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:  # some systems have a limit beyond the limit
            log.info("the limit of open files stays as it is limit=%d reason=%s", soft, error)
    return limit()
