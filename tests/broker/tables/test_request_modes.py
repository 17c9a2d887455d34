"""How a group fetches is kept as RocketMQ keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpipe.broker.tables.limits import TableFull
from rocketpipe.broker.tables.request_modes import RequestModeTable
from rocketpipe.broker.tables.table_file import TableFile
from rocketpipe.model.subscription import MessageRequestMode
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.requests.clients import RequestMode, RequestModes
from rocketpipe.store.files.disk import Disk

POP = RequestMode(topic="t", consumer_group="g", mode=MessageRequestMode.POP, pop_share_queue_num=2)
FILE = (
    b'{"messageRequestModeMap":{"t":{"g":{"consumerGroup":"g","mode":"POP",'
    b'"popShareQueueNum":2,"topic":"t"}}}}'
)


def test_a_mode_outlives_the_broker(tmp_path: Path) -> None:
    table = RequestModeTable()
    table.set(POP)
    path = tmp_path / "messageRequestMode.json"
    file = TableFile(Disk(), path, RequestModes)
    file.save(table.to_file())
    assert fastjson.write(table.to_file()) == FILE
    again = RequestModeTable()
    saved = file.load()
    assert saved is not None
    again.load(saved)
    assert again.get("t", "g") == POP
    assert again.get("t", "h") is None


def test_there_is_room_for_so_many() -> None:
    table = RequestModeTable(limit=1)
    table.set(POP)
    table.set(POP)
    assert table.changes == 2
    with pytest.raises(TableFull):
        table.set(RequestMode(topic="t", consumer_group="h"))
