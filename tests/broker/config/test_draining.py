"""The settings of a broker that is emptied."""

from __future__ import annotations

from pathlib import Path

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.config.draining import CLOSED, DRAINING, OPEN
from rocketpipe.config.live import ChangeableSettings
from rocketpipe.model.topic import Perm


def test_all_of_them_can_be_changed_while_it_runs(tmp_path: Path) -> None:
    settings = ChangeableSettings(BrokerConfig(data=tmp_path))
    for wanted in (DRAINING, CLOSED, OPEN):
        settings.change(wanted)
        assert wanted.items() <= settings.items().items()
    assert DRAINING["brokerPermission"] == str(int(Perm.READ))
    assert settings.now == BrokerConfig(data=tmp_path)
