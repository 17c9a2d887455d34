"""Who answers a planner."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.errors import ConnectionLost
from rocketpipe.pipeline.broker.offsets import BrokerOffsets
from rocketpipe.pipeline.log.directory import LogNotFound
from rocketpipe.pipeline.log.offsets import LogOffsets
from rocketpipe.pipeline.open_offsets import check_offsets, open_offsets
from rocketpipe.pipeline.options.read import ReadOptions
from rocketpipe.pipeline.options.text import OptionError
from rocketpipe.pipeline.planning.offset_reader import UnknownTopic
from rocketpipe.testing import Cluster


def test_brokers_answer_unless_a_path_is_given(
    servers: Cluster, send_raw: Any, store_path: Path
) -> None:
    send_raw("open-places", b"x")
    given = {"nameServer": servers.name_server, "subscribe": "open-places"}
    options = ReadOptions.parse(given)
    with closing(open_offsets(options)) as places:
        assert isinstance(places, BrokerOffsets)
    check_offsets(options)
    with closing(
        open_offsets(ReadOptions.parse(given | {"path": str(store_path), "groupId": "g"}))
    ) as log:
        assert isinstance(log, LogOffsets)


def test_what_is_not_there_is_said_at_once(servers: Cluster, send_raw: Any, tmp_path: Path) -> None:
    send_raw("open-there", b"x")
    given = {"nameServer": servers.name_server}
    with pytest.raises(UnknownTopic, match="'open-nowhere'"):
        check_offsets(ReadOptions.parse(given | {"subscribe": "open-nowhere"}))
    with pytest.raises(OptionError, match="'assign' names queue 9"):
        check_offsets(ReadOptions.parse(given | {"assign": '{"open-there": {"broker-a": [9]}}'}))
    with pytest.raises(LogNotFound, match=r"no log to read: .*no is not a directory"):
        check_offsets(ReadOptions.parse({"path": str(tmp_path / "no"), "subscribe": "a"}))
    with pytest.raises(ConnectionLost, match="no NameServer answers"):
        check_offsets(ReadOptions.parse({"nameServer": "127.0.0.1:1", "subscribe": "a"}))
