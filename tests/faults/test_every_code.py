"""Every request code there could be, with fields that fit nothing: a defined answer to each.

Codes that nobody uses are asked in one of the ways in turn; with ``ROCKETPIPE_ALL_FAULTS`` in all.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.support.raw_peers import (
    ONEWAY,
    Stranger,
    assert_quiet,
    binary_fields,
    binary_frame,
    both_servers,
    fitting,
    json_frame,
    resident_bytes,
    served_codes,
    still_there,
)

from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.fields import codec_for
from rocketpipe.protocol.requests.catalog import typed_requests

CODES = [
    *range(65_536),
    *range(200_050, 200_152),
    *(-1, -2, -3, -10, -310, -32_768, -32_769, -(1 << 31)),
    *((1 << 31) - 1, (1 << 31) - 2, 1 << 16, 1 << 24),
]
UNUSED = range(0) if os.environ.get("ROCKETPIPE_ALL_FAULTS") else range(4096, 65_536)
#: Of the four ways to ask, the last wants no answer.
ANSWERED = 3
VARIATIONS = 300
A_BATCH = 256
MOST_GROWTH = 50 << 20

NAMES = sorted({row.name for kind in typed_requests() for row in codec_for(kind).rows})

#: Texts that a header can carry, and hardly a field is made for.
TEXTS = [
    *("", " ", "-1", "0", "1", "2147483647", "2147483648", "-2147483648", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775809", "9" * 4300, "1_000", "1e5", "0x10", "NaN"),
    *(
        "Infinity",
        "true",
        "null",
        "None",
        "٣",
        "½",
        "\x00",
        "\x01\x02",
        "a\nb",
        "\x1b[31m",
        "\u2028",
    ),
    *("t", "g", "TBW102", "%RETRY%g", "%RETRY%", "%DLQ%g", "SCHEDULE_TOPIC_XXXX", "../../x", "😀"),
    *(
        "x" * 128,
        "x" * 300,
        "y" * 40_000,
        "{}",
        "[]",
        '{"$ref":"$"}',
        "a\x01b\x02DELAY\x019999\x02",
    ),
    *("SQL92", "a > ", "(" * 500 + "a" + ")" * 500, "127.0.0.1:1", "*", "||", "DELAY\x01-1\x02"),
]
SHORT_TEXTS = [text for text in TEXTS if len(text) < 1000]

#: What JSON can say where a field's text should be.
WRONG_VALUES = [
    *(None, True, False, 0, -1, 1.5, 1e300, 1 << 31, 1 << 63, 10**30, [], {}, [1, "2", None]),
    *({"a": 1}, {"a": {"b": [{}]}}, [[[]]], "text", ""),
]

BODIES = [
    *(b"", b"{}", b"[]", b"null", b"0", b'""', b"\x00", b"\xff\xfe", bytes(1000), b"{", b"["),
    *(b"[" * 100_000, b'{"a":' * 100_000, b"[" * 50_000 + b"]" * 50_000, b"9" * 4300),
    *(b'{"clientID":' + b"9" * 5000 + b"}", b'{"clientID":"\\ud800"}', b'{"clientID":NaN}'),
    *(b'{"clientID":"a","clientID":"b"}', b"{" + b'"a":1,' * 500 + b'"a":1}', b'{"$ref":"$"}'),
    b'{"clientID":"c","consumerDataSet":[{"groupName":"../x"}]}',
    b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":1}]}]}',
    b'{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":"NONE"}]}',
    b'{"clientID":"c","producerDataSet":[{"groupName":null}],"consumerDataSet":null}',
    b'{"clientId":"c","consumerGroup":"g","mqSet":[{"topic":"t","brokerName":"b","queueId":-1}]}',
    b'{"clientId":"c","consumerGroup":"g","mqSet":[{"topic":"t","brokerName":"b","queueId":"x"}]}',
    b'{"topicConfigList":[{"topicName":"t","readQueueNums":-5,"writeQueueNums":99999999}]}',
    b'{"topicConfigList":[{"topicName":"../t","perm":-1,"attributes":{"+x":"y"}}]}',
    b'{"groupConfigList":[{"groupName":"g","retryQueueNums":-1,"retryMaxTimes":2147483647}]}',
    b'{"groupName":"g","groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"max":-1}}}',
    b'{"groupName":"g","groupRetryPolicy":{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[]}}}',
    b"rocketmqHome=/\nconfigStorePath=/x\n",
]


class Ways:
    """Ways to ask for a code, drawn from a pool: to write each anew would take half the time."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._texts: list[tuple[str, bytes]] = []
        self._wrongs: list[str] = []
        for _ in range(500):
            names = [chance.choice(NAMES) for _ in range(chance.randrange(1, 5))]
            texts = {name: chance.choice(SHORT_TEXTS) for name in names}
            self._texts.append((json.dumps(texts), binary_fields(texts)))
            self._wrongs.append(json.dumps({name: chance.choice(WRONG_VALUES) for name in names}))

    def to_ask(self, code: int, opaque: int) -> list[bytes]:
        """Four frames: without fields, with random ones, with wrong types, and oneway."""
        chance = self._chance
        as_json, as_binary = chance.choice(self._texts)
        body = chance.choice((b"", b"{}", b"\x00\xff", b"[1"))
        if -32_768 <= code < 32_768 and chance.random() < 0.5:
            frames = [
                binary_frame(code, opaque, b""),
                binary_frame(code, opaque + 1, as_binary, body=body),
            ]
        else:
            frames = [
                json_frame(code, opaque, "null"),
                json_frame(code, opaque + 1, as_json, body=body),
            ]
        return [
            *frames,
            json_frame(code, opaque + 2, chance.choice(self._wrongs), body=body),
            json_frame(code, opaque + 3, as_json, flag=ONEWAY),
        ]


@pytest.fixture(params=["name_server", "broker"])
def which(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


async def test_every_code_is_answered_whatever_comes_with_it(
    which: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with both_servers(tmp_path, max_suspend_ms=10) as servers:
        stranger = await Stranger.at(getattr(servers, which))
        served = set(await served_codes(stranger))
        assert len(served) > 20
        tasks, memory = len(asyncio.all_tasks()), resident_bytes()
        ways = Ways(random.Random(7))
        for at in range(0, len(CODES), A_BATCH):
            frames: list[bytes] = []
            wanted: list[int] = []
            for number, code in enumerate(CODES[at : at + A_BATCH]):
                asked = ways.to_ask(code, 4 * number)
                way = code % ANSWERED
                if code in UNUSED:
                    frames.append(asked[way])
                    wanted.append(4 * number + way)
                else:
                    frames += asked
                    wanted += range(4 * number, 4 * number + ANSWERED)
            answers = await stranger.ask(frames, wanted)
            assert len(answers) == len(wanted), "a request that wanted no answer got one"
            for opaque, answer in answers.items():
                code = CODES[at + opaque // 4]
                if code not in served:
                    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED, code
                    assert answer.remark == f" request type {code} not supported"
        grown = (resident_bytes() or 0) - (memory or 0)
        assert grown < MOST_GROWTH, f"{grown >> 20} MB more"
        await stranger.told(())
        assert len(asyncio.all_tasks()) <= tasks
        await stranger.close()
        await still_there(servers)
    assert_quiet(caplog)


def variations(code: int, chance: random.Random) -> Iterator[bytes]:
    """Ways to ask for one code that a server serves; their opaques count from 0."""
    rows = [row for kind in typed_requests() if code in kind.codes for row in codec_for(kind).rows]
    for opaque in range(VARIATIONS):
        fields: dict[str, object] = {}
        wrongs = chance.choice((0, 1, 1, 2, len(rows)))
        spoilt = set(chance.sample(range(len(rows)), min(wrongs, len(rows))))
        for number, row in enumerate(rows):
            name = chance.choice((row.name, row.short))
            if number not in spoilt:
                fields[name] = fitting(row, chance)
            elif chance.random() < 0.8:
                fields[name] = chance.choice(TEXTS)
            elif chance.random() < 0.5:
                fields[name] = chance.choice(WRONG_VALUES)
        body = chance.choice(BODIES)
        fits = code < 1 << 15  # codes of binary headers have 16 bits
        plain = all(isinstance(value, str) for value in fields.values())
        if chance.random() < 0.4 and plain and fits:
            block = binary_fields({name: str(value) for name, value in fields.items()})
            yield binary_frame(code, opaque, block, body=body)
        else:
            text = json.dumps(fields)
            if fields and chance.random() < 0.1:
                text = text[:-1] + ", " + text[1:]  # each key twice
            yield json_frame(code, opaque, text, body=body)


async def test_a_code_that_is_served_is_answered_in_each_of_many_ways_to_ask(
    which: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with both_servers(tmp_path, max_suspend_ms=10) as servers:
        stranger = await Stranger.at(getattr(servers, which))
        chance = random.Random(11)
        seen: set[int] = set()
        for code in await served_codes(stranger):
            frames = list(variations(code, chance))
            try:
                answers = await stranger.ask(frames, range(len(frames)))
            except AssertionError as error:
                error.add_note(f"code {code}")
                raise
            seen |= {answer.code for answer in answers.values()}
        assert ResponseCode.SUCCESS in seen, "not all of it should be refused"
        await stranger.close()
        await still_there(servers)
    assert_quiet(caplog)
