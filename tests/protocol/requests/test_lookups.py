from __future__ import annotations

from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.command import RESPONSE, Command
from rocketpipe.protocol.request import from_command, read_reply, to_command
from rocketpipe.protocol.requests.lookups import QueryMessage, ViewMessageById

FIELDS = {"topic": "T", "key": "k", "maxNum": "64", "beginTimestamp": "0", "endTimestamp": "9"}


def test_a_lookup_by_unique_key_says_so_in_a_field_of_its_own() -> None:
    plain = from_command(QueryMessage, Command(code=12, opaque=1, fields=FIELDS))
    assert plain.unique_key is None
    fields = {**FIELDS, "_UNIQUE_KEY_QUERY": "true"}
    unique = from_command(QueryMessage, Command(code=12, opaque=1, fields=fields))
    assert unique.unique_key is True
    assert to_command(unique, 1).fields == fields


def test_a_message_is_viewed_with_or_without_its_topic() -> None:
    asked = from_command(ViewMessageById, Command(code=33, opaque=1, fields={"offset": "77"}))
    assert asked == ViewMessageById(offset=LogOffset(77))
    answer = read_reply(asked, Command(code=0, opaque=1, flag=RESPONSE, body=b"record"))
    assert answer.message == b"record"
