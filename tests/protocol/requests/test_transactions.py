from __future__ import annotations

import pytest

from rocketpipe.errors import HeaderError
from rocketpipe.model.flags import Transaction
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import from_command
from rocketpipe.protocol.requests.transactions import EndTransaction

FIELDS = {
    "producerGroup": "pg",
    "tranStateTableOffset": "4",
    "commitLogOffset": "400",
    "commitOrRollback": "8",
    "msgId": "m",
}


def test_a_producer_of_4_9_ends_a_transaction_without_naming_the_topic() -> None:
    asked = from_command(EndTransaction, Command(code=37, opaque=1, fields=FIELDS))
    assert asked.commit_or_rollback == Transaction.COMMITTED
    assert asked.topic is None
    assert asked.from_transaction_check is False


def test_a_transaction_without_a_place_is_refused() -> None:
    fields = {name: text for name, text in FIELDS.items() if name != "commitLogOffset"}
    with pytest.raises(HeaderError, match="commitLogOffset"):
        from_command(EndTransaction, Command(code=37, opaque=1, fields=fields))
