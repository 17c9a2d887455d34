"""What this machine gives a broker: files it may open, and a directory for its store."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.client.admin.findings import DISK_FULL, Finding, ok, problem, unknown, warning
from rocketpipe.descriptors import limit, shares
from rocketpipe.store.config import StoreConfig

#: Fewer open files than these are too few for a broker with many queues and clients; so many do.
ENOUGH_FILES: Final = 10_000
MANY_FILES: Final = 65_536
#: A store with less room than a file of its log cannot go on for long.
LITTLE_BYTES: Final = 2 << 30
_EARLY: Final = 75


def open_files() -> Finding:
    """How many files a server may open that is started as this command was."""
    what = "open files, of servers started from here"
    try:
        import resource  # not on every platform
    except ImportError:
        return unknown(what, "this platform does not say")
    # Servers raise the soft limit to the hard one when they start.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= ENOUGH_FILES:
        return ok(what, "unlimited" if hard == resource.RLIM_INFINITY else f"up to {hard}")
    return warning(
        what,
        f"up to {hard}, which servers share out between files and connections",
        f"ulimit -n {MANY_FILES}, or LimitNOFILE={MANY_FILES} in a systemd unit",
    )


def too_few_files(config: BrokerConfig) -> list[str]:
    """What a broker is set to have open at once, and cannot, as this process may not."""
    shared = shares()
    store = config.store or StoreConfig(root=config.data)
    wanted = {
        "maxConnections": (config.max_connections, shared.connections),
        "maxOpenFiles": (store.max_open_files, shared.store_files),
    }
    return [
        f"{key}={most}: {share} counts, as this process may open {limit()} files: "
        f"ulimit -n {MANY_FILES}, or LimitNOFILE={MANY_FILES} in a systemd unit"
        for key, (most, share) in wanted.items()
        if share < most
    ]


def store_directory(path: Path) -> list[Finding]:
    """Whether a broker could keep its store in a directory: who may write there, and how much."""
    what = f"directory {path}"
    if not path.exists():
        return [problem(what, "is not there", "create it, or name the directory of the store")]
    if not path.is_dir():
        return [problem(what, "is no directory", "name the directory of the store")]
    found = [_permissions(what, path)]
    found += _foreign(what, path)
    found.append(_room(what, path))
    return found


def _permissions(what: str, path: Path) -> Finding:
    lacking = [
        word
        for word, mode in (("read", os.R_OK), ("written", os.W_OK), ("entered", os.X_OK))
        if not os.access(path, mode)
    ]
    if lacking:
        remedy = "give it to the user that runs the broker: chown, then chmod 700"
        return problem(what, f"may not be {' or '.join(lacking)} by this user", remedy)
    if path.stat().st_mode & 0o002:
        return warning(what, "may be written by everybody", "chmod o-w: messages are in there")
    return ok(what, "read and written by this user")


def _foreign(what: str, path: Path) -> list[Finding]:
    """Files of the store that somebody else owns: left by a broker that ran as another user."""
    try:
        closed = [each for each in sorted(path.iterdir()) if not os.access(each, os.R_OK | os.W_OK)]
    except OSError as error:
        return [unknown(what, f"its files could not be listed: {error}")]
    if not closed:
        return []
    remedy = "run the broker as the user that owns them, or give them to this one"
    return [problem(what, f"{closed[0].name} in it may not be read and written", remedy)]


def _room(what: str, path: Path) -> Finding:
    try:
        usage = shutil.disk_usage(path)
    except OSError as error:
        return unknown(what, f"its disk could not be asked: {error}")
    # As brokers count it: what only root may still use is used.
    percent = round(100 - 100 * usage.free / usage.total) if usage.total else 100
    detail = f"{usage.free / (1 << 30):.1f} GiB free, {percent}% used"
    if percent >= DISK_FULL:
        return problem(what, detail, f"make room: from {DISK_FULL}% on brokers refuse to write")
    if percent >= _EARLY or usage.free < LITTLE_BYTES:
        return warning(what, detail, "make room, or keep messages for less long")
    return ok(what, detail)
