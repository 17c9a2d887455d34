"""What keeps a broker from its work, for those who ask whether it is ready."""

from __future__ import annotations

from rocketpipe.broker.core import Core
from rocketpipe.store.state.health import StoreState


def problem_of(core: Core) -> str | None:
    """What keeps a broker from its work, if something does."""
    if core.store.state is StoreState.RUNNING:
        following = core.group.status().following if core.config.replication is not None else None
        if following is None or following.refused is None:
            return None
        return f"broker {core.config.name!r}: it cannot follow: {following.refused}"
    reason = core.store.health.reason
    return f"broker {core.config.name!r}: the store is {core.store.state.name.lower()}: {reason}"


def end_of(core: Core) -> str | None:
    """Why a broker is not to go on: its store failed, and it was told to end then."""
    failure = core.store.health.failure
    if failure is None or not core.config.exit_on_store_failure:
        return None
    return f"broker {core.config.name!r}: {failure} (exitOnStoreFailure)"
