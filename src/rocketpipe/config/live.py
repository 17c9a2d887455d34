"""Settings that operators change while a server runs, by their keys, all or none.

Only what is marked as live can be changed, and never a path or an address. A change lasts until the
server stops: it starts again with what its file says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from rocketpipe.config.setting import Setting, settings_of, shown
from rocketpipe.errors import RocketPipeError

ConfigT = TypeVar("ConfigT")


def texts_of(config: object) -> dict[str, str]:
    """Return the settings of an object that have a value, as text by key."""
    return {
        one.key: one.write(value)
        for one in settings_of(type(config))
        if (value := getattr(config, one.attribute)) is not None
    }


class SettingRefused(RocketPipeError):
    """A setting that cannot be changed as asked; nothing was."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key[:80]}: {reason}")
        self.key = key


class SettingForbidden(SettingRefused):
    """A setting that only the file says that the server starts with."""


class ChangeableSettings(Generic[ConfigT]):
    """A server's settings in force. Whoever uses one looks at ``now`` each time."""

    def __init__(self, config: ConfigT) -> None:
        self.now = config

    def live(self) -> Iterable[Setting]:
        """Return the settings that can be changed now."""
        return [one for one in settings_of(type(self.now)) if one.live]

    @property
    def live_keys(self) -> list[str]:
        """The keys that can be changed while the server runs, in order."""
        return sorted(one.key for one in self.live())

    def change(self, values: Mapping[str, str]) -> dict[str, str]:
        """Change settings by their keys, all or none; return those that are not as before.

        Raises:
            SettingForbidden: If a key is one that nobody changes from outside.
            SettingRefused: If the value does not fit, or it cannot be changed now.
        """
        changes: dict[str, Any] = {}
        for key, text in values.items():
            setting = self._changeable(key)
            try:
                changes[setting.attribute] = setting.read(text)
            except ValueError as error:
                raise SettingRefused(key, f"it cannot be {text[:80]!r}: {error}") from None
        before = self.now
        try:
            self.now = self._with(changes)
        except ValueError as error:
            raise SettingRefused(", ".join(values), str(error)) from None
        texts = self._texts(before)
        return {key: text for key, text in self._texts(self.now).items() if text != texts.get(key)}

    def items(self) -> dict[str, str]:
        """Return every setting that has a value, as text, sorted by key; secrets are not shown."""
        return {key: shown(key, text) for key, text in sorted(self._texts(self.now).items())}

    def text(self) -> str:
        """Return the same as lines of ``key=value``."""
        return "".join(f"{key}={text}\n" for key, text in self.items().items())

    def _with(self, changes: Mapping[str, Any]) -> ConfigT:
        """Return the settings with other values, by attribute."""
        now: Any = self.now
        changed: ConfigT = dataclasses.replace(now, **changes)
        return changed

    def _texts(self, config: ConfigT) -> dict[str, str]:
        """Return the settings of ``config`` that have a value, as text."""
        return texts_of(config)

    def _changeable(self, key: str) -> Setting:
        for one in self.live():
            if key == one.key or key in one.aliases:
                return one
        raise self._refusal(key)

    def _refusal(self, key: str) -> SettingRefused:
        """Return why a key is not among those that can be changed."""
        return SettingForbidden(
            key,
            f"it cannot be changed while the server runs; these can: {', '.join(self.live_keys)}",
        )
