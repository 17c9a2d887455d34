from __future__ import annotations

from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import Language
from rocketpipe.protocol.request import from_command, to_command
from rocketpipe.protocol.requests.running import (
    ClientConnection,
    ConsumeDirectly,
    DirectOutcome,
    DirectResult,
    HeldQueueInfo,
)


def test_a_message_to_be_handled_travels_beside_both_names_of_its_broker() -> None:
    asked = ConsumeDirectly(
        consumer_group="g", client_id="c", of_broker="broker-a", broker_name="b", message=b"\0\1"
    )
    command = to_command(asked, 1)
    assert (command.fields["brokerName"], command.fields["bname"]) == ("broker-a", "b")
    assert from_command(ConsumeDirectly, command) == asked


def test_an_outcome_that_nobody_knows_is_none() -> None:
    read = fastjson.read(b'{"consumeResult":"CR_PERHAPS"}', DirectResult)
    assert read.outcome is None
    assert fastjson.read(b'{"consumeResult":"CR_LATER"}', DirectResult).outcome is (
        DirectOutcome.CR_LATER
    )


def test_a_language_is_read_by_name() -> None:
    read = fastjson.read(b'{"clientId":"c","language":"CPP","version":3}', ClientConnection)
    assert read.language is Language.CPP


def test_a_dropped_queue_is_spelled_as_peers_spell_it() -> None:
    assert b'"droped":true' in fastjson.write(HeldQueueInfo(dropped=True))
