"""The settings in force, and which of them operators may change while the broker runs.

Only what is marked as live, and what some part has said that it watches, can be changed; never a
path, an address or a name. A change lasts until the broker stops: it starts again with what its
file says.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.loading import STORE_SETTINGS, broker_settings
from rocketpipe.broker.config.replica_settings import REPLICATION_SETTINGS
from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.clock import Clock
from rocketpipe.config.live import (
    ChangeableSettings,
    SettingForbidden,
    SettingRefused,
    texts_of,
)
from rocketpipe.config.setting import SECRET_KEY, Setting, settings_of, shown
from rocketpipe.model.topic import DataVersion
from rocketpipe.store.config import StoreConfig

log = logging.getLogger(__name__)

#: What nobody reaches from outside: where data is, where the broker listens and who it is.
_NEVER: Final = re.compile(
    r"path|dir\b|dir$|home|class|addr|ip[12]?$|host|port$|namesrv|^brokername$|clustername$|brokerid$"
    r"|list$|plugin|url$|(?<!pro)file$",
    re.IGNORECASE,
)


class LiveSettings(ChangeableSettings[BrokerConfig]):
    """A broker's settings as they are now; whoever depends on one is told of changes."""

    def __init__(self, config: BrokerConfig, store: StoreConfig, clock: Clock) -> None:
        super().__init__(config)
        self._store = store
        self._clock = clock
        self._watchers: list[Callable[[BrokerConfig], None]] = []
        self._watched: set[str] = set()
        self.version = DataVersion()

    def watch(self, watcher: Callable[[BrokerConfig], None], *attributes: str) -> None:
        """Have ``watcher`` called with the settings after each change.

        ``attributes`` are those of ``BrokerConfig``, or of its ``replication``, that it puts into
        force: these can be changed.
        """
        self._watchers.append(watcher)
        self._watched.update(attributes)

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """Let watchers that are added inside the block go at its end."""
        before = list(self._watchers), set(self._watched)
        try:
            yield
        finally:
            self._watchers, self._watched = before

    def change(self, values: Mapping[str, str]) -> dict[str, str]:
        """Change settings as the class above says, and tell who watches them."""
        different = super().change(values)
        if different:
            self.version = self.version.after_change(self._clock.now_ms())
            log.info("settings changed %s", " ".join(f"{k}={v}" for k, v in different.items()))
            for watcher in self._watchers:
                watcher(self.now)
        return different

    def items(self) -> dict[str, str]:
        """Every setting that has a value, as text, sorted by key; secrets are not shown."""
        found = {
            one.key: one.write(value)
            for one in STORE_SETTINGS
            if (value := getattr(self._store, one.attribute)) is not None
        }
        found |= super().items()
        # What tools look for.
        found |= {"brokerRole": self._role(), "storeType": "default"}
        return {key: shown(key, text) for key, text in sorted(found.items())}

    def live(self) -> list[Setting]:
        """Return what is marked as live, some part watches, and may be reached from outside."""
        group = REPLICATION_SETTINGS if self.now.replication is not None else ()
        return [
            one
            for one in (*settings_of(BrokerConfig), *group)
            if one.live and one.attribute in self._watched and not _NEVER.search(one.key)
        ]

    def _with(self, changes: Mapping[str, Any]) -> BrokerConfig:
        group = {one.attribute for one in REPLICATION_SETTINGS} & changes.keys()
        own = {attribute: value for attribute, value in changes.items() if attribute not in group}
        if group and self.now.replication is not None:
            inner = {attribute: changes[attribute] for attribute in group}
            own["replication"] = dataclasses.replace(self.now.replication, **inner)
        return super()._with(own)

    def _texts(self, config: BrokerConfig) -> dict[str, str]:
        group = config.replication
        return super()._texts(config) | (texts_of(group) if group is not None else {})

    def _role(self) -> str:
        group = self.now.replication
        if group is not None and group.role is not None:
            return str(group.role.value)
        waits = group is not None and group.waits
        return str((BrokerRole.SYNC_MASTER if waits else BrokerRole.ASYNC_MASTER).value)

    def _refusal(self, key: str) -> SettingRefused:
        if _NEVER.search(key) or SECRET_KEY.search(key):
            return SettingForbidden(key, "this is set where the broker starts, and nowhere else")
        if any(key == one.key or key in one.aliases for one in broker_settings()):
            return SettingRefused(
                key, "it takes effect at a restart: change it in the broker's file, then restart it"
            )
        return SettingRefused(
            key,
            "no such setting, or none that can be changed; these can: " + ", ".join(self.live_keys),
        )
