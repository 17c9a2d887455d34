"""Settings are changed by their keys, all or none, and only those that are marked as live."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rocketpipe.config.live import ChangeableSettings, SettingForbidden, SettingRefused
from rocketpipe.config.setting import setting


@dataclass(frozen=True, kw_only=True)
class Config:
    least: int = setting("leastOfIt", default=1, live=True, least=0, aliases=("least",))
    most: int = setting("mostOfIt", default=9, live=True)
    path: str | None = setting("dataPath", default=None)

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise ValueError("leastOfIt is above mostOfIt")


def test_a_change_is_in_force_and_told() -> None:
    settings = ChangeableSettings(Config())
    assert settings.change({"least": "3", "mostOfIt": "9"}) == {"leastOfIt": "3"}
    assert settings.now == Config(least=3)
    assert settings.text() == "leastOfIt=3\nmostOfIt=9\n"


@pytest.mark.parametrize(
    ("key", "value", "error", "reason"),
    [
        ("dataPath", "/x", SettingForbidden, "these can: leastOfIt, mostOfIt"),
        ("nothing", "1", SettingForbidden, "cannot be changed while the server runs"),
        ("leastOfIt", "-1", SettingRefused, "it cannot be '-1'"),
        ("leastOfIt", "10", SettingRefused, "leastOfIt is above mostOfIt"),
    ],
)
def test_what_cannot_be_changes_nothing(
    key: str, value: str, error: type[SettingRefused], reason: str
) -> None:
    settings = ChangeableSettings(Config())
    with pytest.raises(error, match=reason):
        settings.change({"mostOfIt": "8", key: value})
    assert settings.now == Config()
