"""The settings in force, and which of them operators may change while the broker runs.

Only what is marked as live, and what some part has said that it watches, can be changed; never a
path, an address or a name. A change lasts until the broker stops: it starts again with what its
file says.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Callable, Mapping
from typing import Final

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.loading import STORE_SETTINGS, broker_settings
from rocketpipe.clock import Clock
from rocketpipe.config.setting import Setting, settings_of
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.topic import DataVersion
from rocketpipe.store.config import StoreConfig

log = logging.getLogger(__name__)

HIDDEN: Final = "******"

_SECRET: Final = re.compile(
    r"secret|password|passwd|credential|token|accesskey|privatekey|signature", re.IGNORECASE
)
#: What nobody reaches from outside: where data is, where the broker listens and who it is.
_NEVER: Final = re.compile(
    r"path|dir\b|dir$|home|class|addr|ip[12]?$|host|port$|namesrv|^brokername$|clustername$|brokerid$"
    r"|list$|plugin|url$|(?<!pro)file$",
    re.IGNORECASE,
)


class SettingRefused(RocketPipeError):
    """A setting that cannot be changed as asked; nothing was."""

    #: Whether nobody may change it from outside.
    forbidden = False

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key[:80]}: {reason}")
        self.key = key


class SettingForbidden(SettingRefused):
    """A path, an address or a name: only the file that the broker starts with says those."""

    forbidden = True


class LiveSettings:
    """A broker's settings as they are now; whoever depends on one is told of changes."""

    def __init__(self, config: BrokerConfig, store: StoreConfig, clock: Clock) -> None:
        self.now = config
        self._store = store
        self._clock = clock
        self._watchers: list[Callable[[BrokerConfig], None]] = []
        self._watched: set[str] = set()
        self.version = DataVersion()

    def watch(self, watcher: Callable[[BrokerConfig], None], *attributes: str) -> None:
        """Have ``watcher`` called with the settings after each change.

        ``attributes`` are those of ``BrokerConfig`` that it puts into force: these can be changed.
        """
        self._watchers.append(watcher)
        self._watched.update(attributes)

    @property
    def live_keys(self) -> list[str]:
        """The keys that can be changed while the broker runs, in order."""
        return sorted(one.key for one in self._live())

    def change(self, values: Mapping[str, str]) -> dict[str, str]:
        """Change settings by their keys, all or none; gives those that are not as before.

        Raises:
            SettingForbidden: If a key is one that nobody changes from outside.
            SettingRefused: If there is no such key, it needs a restart, or the value does not fit.
        """
        changes = {}
        for key, text in values.items():
            setting = self._changeable(key)
            try:
                changes[setting.attribute] = setting.read(text)
            except ValueError as error:
                raise SettingRefused(key, f"it cannot be {text[:80]!r}: {error}") from None
        before = self.now
        try:
            after = dataclasses.replace(before, **changes)
        except ValueError as error:
            raise SettingRefused(", ".join(values), str(error)) from None
        different = {
            one.key: one.write(getattr(after, one.attribute))
            for one in settings_of(BrokerConfig)
            if getattr(after, one.attribute) != getattr(before, one.attribute)
        }
        if different:
            self.now = after
            self.version = self.version.after_change(self._clock.now_ms())
            log.info("settings changed %s", " ".join(f"{k}={v}" for k, v in different.items()))
            for watcher in self._watchers:
                watcher(after)
        return different

    def items(self) -> dict[str, str]:
        """Every setting that has a value, as text, sorted by key; secrets are not shown."""
        found = {
            one.key: one.write(value)
            for one in STORE_SETTINGS
            if (value := getattr(self._store, one.attribute)) is not None
        }
        found |= {
            one.key: one.write(value)
            for one in settings_of(BrokerConfig)
            if (value := getattr(self.now, one.attribute)) is not None
        }
        # What tools look for, and is always so here.
        found |= {"brokerRole": "ASYNC_MASTER", "storeType": "default"}
        return {
            key: HIDDEN if _SECRET.search(key) and text else text
            for key, text in sorted(found.items())
        }

    def text(self) -> str:
        """The same as lines of ``key=value``."""
        return "".join(f"{key}={text}\n" for key, text in self.items().items())

    def _live(self) -> list[Setting]:
        return [
            one
            for one in settings_of(BrokerConfig)
            if one.live and one.attribute in self._watched and not _NEVER.search(one.key)
        ]

    def _changeable(self, key: str) -> Setting:
        for one in self._live():
            if key == one.key or key in one.aliases:
                return one
        if _NEVER.search(key) or _SECRET.search(key):
            raise SettingForbidden(key, "this is set where the broker starts, and nowhere else")
        if any(key == one.key or key in one.aliases for one in broker_settings()):
            raise SettingRefused(
                key, "it takes effect at a restart: change it in the broker's file, then restart it"
            )
        raise SettingRefused(
            key,
            "no such setting, or none that can be changed; these can: " + ", ".join(self.live_keys),
        )
