"""What a gRPC server answers to a list of calls, right and wrong ones, in a form to compare.

The same calls are made to Apache's proxy and to ours. Of an answer the codes are kept, and whatever
else is the same each time; texts, ids, times and addresses are not. `GOLDEN` has Apache's.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
from tests.compat.support.grpc_asking import (
    PATIENCE_S,
    TYPES,
    Asking,
    code,
    endpoints,
    message,
    publishing,
    receiving,
    sending,
    subscribing,
    topic,
)

from rocketpipe import Admin
from rocketpipe.proxy.v2 import messaging_pb2 as pb

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "grpc-answers-5.5.0.json"
Answer = Any
_DAY_S: Final = 24 * 3600


async def make_names(name_servers: str) -> None:
    """Have the topics and groups made that the calls are about."""
    async with Admin(name_servers) as admin:
        for word, kind in TYPES.items():
            await admin.topics.create(f"t-{word}", queues=2, message_type=kind)
        await admin.groups.create("g-plain")
        await admin.groups.create("g-acks")
        await admin.groups.create("g-fifo", ordered=True)


# What is asked, by a name for it

Probe = Callable[[Asking], Awaitable[Answer]]
PROBES: Final[dict[str, Probe]] = {}
_TRIES: Final = 20


def probe(asked: Probe) -> Probe:
    PROBES[asked.__name__.strip("_")] = asked
    return asked


def _simple(name: str, rpc: str, make: Callable[[], Any], *, client_id: str | None = None) -> None:
    async def asked(asking: Asking) -> Answer:
        who = asking if client_id is None else asking.other(client_id)
        return code((await who.call(rpc, make())).status)

    PROBES[name] = asked


def _route(word: str) -> Callable[[], Any]:
    return lambda: pb.QueryRouteRequest(topic=topic(word), endpoints=endpoints())


for _word in (
    "unknown-topic",
    "",
    "a b",
    "TBW102",
    "SCHEDULE_TOPIC_XXXX",
    "x" * 128,
    "%DLQ%g-plain",
):
    _simple(f"route of {_word[:20]!r}", "QueryRoute", _route(_word))
_simple("route without client id", "QueryRoute", _route("normal"), client_id="")


@probe
async def route(asking: Asking) -> Answer:
    answers = {}
    for word in TYPES:
        answer = await asking.call("QueryRoute", _route(word)())
        answers[word] = [
            {
                "id": queue.id,
                "permission": pb.Permission.Name(queue.permission),
                "takes": [pb.MessageType.Name(each) for each in queue.accept_message_types],
                "broker id": queue.broker.id,
                "scheme": pb.AddressScheme.Name(queue.broker.endpoints.scheme),
                "host": queue.broker.endpoints.addresses[0].host,
            }
            for queue in answer.message_queues
        ]
    return answers


def _assignment(word: str, group: str) -> Callable[[], Any]:
    return lambda: pb.QueryAssignmentRequest(
        topic=topic(word), group=pb.Resource(name=group), endpoints=endpoints()
    )


_simple("assignment of unknown topic", "QueryAssignment", _assignment("unknown-topic", "g-plain"))
_simple("assignment of illegal group", "QueryAssignment", _assignment("normal", "a b"))


@probe
async def assignment(asking: Asking) -> Answer:
    answers = {}
    for group in ("g-plain", "g-fifo", "g-nobody-made"):
        answer = await asking.call("QueryAssignment", _assignment("fifo", group)())
        queues = [
            (each.message_queue.id, each.message_queue.broker.id) for each in answer.assignments
        ]
        answers[group] = [code(answer.status), sorted(map(list, queues))]
    return answers


# Settings


@probe
async def settings_of_a_producer(asking: Asking) -> Answer:
    told = await asking.other("producer").settle(publishing("normal", "transaction"))
    return _settings(told)


@probe
async def settings_of_consumers(asking: Asking) -> Answer:
    answers = {}
    for group in ("g-plain", "g-fifo"):
        for kind in (pb.SIMPLE_CONSUMER, pb.PUSH_CONSUMER):
            name = f"{group} {pb.ClientType.Name(kind)}"
            client = asking.other(name.replace(" ", "-"))
            answers[name] = _settings(await client.settle(subscribing(group, kind)))
    return answers


@probe
async def settings_of_nobody(asking: Asking) -> Answer:
    await asking.other("nobody").settle(pb.Settings(client_type=pb.PRODUCER))
    return "taken"


@probe
async def settings_with_an_illegal_topic(asking: Asking) -> Answer:
    await asking.other("illegal").settle(publishing("a b"))
    return "taken"


@probe
async def settings_with_an_unknown_topic(asking: Asking) -> Answer:
    await asking.other("unknown").settle(publishing("unknown-topic"))
    return "taken"


@probe
async def settings_without_client_id(asking: Asking) -> Answer:
    await asking.other("").settle(publishing("normal"))
    return "taken"


def _settings(told: pb.Settings) -> Answer:
    policy = told.backoff_policy
    answer: dict[str, Any] = {
        "attempts": policy.max_attempts,
        "grows": policy.WhichOneof("strategy"),
        "metric": told.metric.on,
    }
    if policy.HasField("exponential_backoff"):
        grows = policy.exponential_backoff
        answer["backoff"] = [
            grows.initial.ToMilliseconds(),
            grows.max.ToMilliseconds(),
            grows.multiplier,
        ]
    else:
        answer["steps"] = len(policy.customized_backoff.next)
    if told.HasField("publishing"):
        answer["most bytes"] = told.publishing.max_body_size
        answer["checks types"] = told.publishing.validate_message_type
    else:
        wanted = told.subscription
        answer["fifo"] = wanted.fifo
        answer["batch"] = wanted.receive_batch_size
        answer["polling ms"] = wanted.long_polling_timeout.ToMilliseconds()
    return answer


def _beating(client_id: str, **fields: Any) -> Probe:
    async def asked(asking: Asking) -> Answer:
        client = asking.other(client_id)
        return code((await client.call("Heartbeat", pb.HeartbeatRequest(**fields))).status)

    return asked


PROBES["heartbeat before settings"] = _beating("never-settled", client_type=pb.PRODUCER)
PROBES["heartbeat of a producer"] = _beating("producer", client_type=pb.PRODUCER)
PROBES["heartbeat of a consumer"] = _beating(
    "g-plain-PUSH_CONSUMER", client_type=pb.PUSH_CONSUMER, group=pb.Resource(name="g-plain")
)


# Sends

_SENDS: Final[Mapping[str, Callable[[], Any]]] = {
    "normal": lambda: sending(message()),
    "fifo": lambda: sending(message("fifo", pb.FIFO, message_group="a")),
    "delayed": lambda: sending(message("delay", pb.DELAY, after_s=60)),
    "delayed into the past": lambda: sending(message("delay", pb.DELAY, after_s=-60)),
    "transaction": lambda: sending(message("transaction", pb.TRANSACTION)),
    "three": lambda: sending(message(), message(), message()),
    "nothing": sending,
    "to two topics": lambda: sending(message(), message("fifo", pb.FIFO, message_group="a")),
    "to an unknown topic": lambda: sending(message("unknown-topic")),
    "to an illegal topic": lambda: sending(message("a b")),
    "without a body": lambda: sending(message(body=b"")),
    "with too large a body": lambda: sending(message(body=bytes((4 << 20) + 1))),
    "with an empty tag": lambda: sending(message(tag="")),
    "with a blank tag": lambda: sending(message(tag=" ")),
    "with a bar in its tag": lambda: sending(message(tag="a|b")),
    "with a control in its tag": lambda: sending(message(tag="a\x01")),
    "with a blank key": lambda: sending(message(keys=[" "])),
    "with a control in its key": lambda: sending(message(keys=["a\x01"])),
    "with a reserved property": lambda: sending(message(user={"KEYS": "a"})),
    "with a control in a property": lambda: sending(message(user={"a": "b\x02"})),
    "with 129 properties": lambda: sending(message(user={f"k{n}": "v" for n in range(129)})),
    "with 17 KiB of properties": lambda: sending(message(user={"k": "v" * (17 << 10)})),
    "with a group of 63": lambda: sending(message("fifo", pb.FIFO, message_group="g" * 63)),
    "with a group of 64": lambda: sending(message("fifo", pb.FIFO, message_group="g" * 64)),
    "with a blank group": lambda: sending(message("fifo", pb.FIFO, message_group=" ")),
    "fifo without a group": lambda: sending(message("fifo", pb.FIFO)),
    "without an id": lambda: sending(message(message_id="")),
    "in two days": lambda: sending(message("delay", pb.DELAY, after_s=2 * _DAY_S)),
    "fifo to normal": lambda: sending(message("normal", pb.FIFO, message_group="a")),
    "normal to fifo": lambda: sending(message("fifo")),
    "delayed to normal": lambda: sending(message("normal", pb.DELAY, after_s=60)),
    "transaction to normal": lambda: sending(message("normal", pb.TRANSACTION)),
    "of no type": lambda: sending(message("normal", pb.MESSAGE_TYPE_UNSPECIFIED)),
}


def _send(make: Callable[[], Any]) -> Probe:
    async def asked(asking: Asking) -> Answer:
        answer = await asking.call("SendMessage", make())
        return {
            "status": code(answer.status),
            "entries": [
                {
                    "status": code(entry.status),
                    "id": bool(entry.message_id),
                    "transaction": bool(entry.transaction_id),
                    "recall": bool(entry.recall_handle),
                }
                for entry in answer.entries
            ],
        }

    return asked


for _name, _make in _SENDS.items():
    PROBES[f"send {_name}"] = _send(_make)


# Receives, and what follows

_RECEIVES: Final[Mapping[str, Callable[[], Any]]] = {
    "nothing": lambda: receiving("normal", "g-plain", expression="no-such-tag"),
    "from an unknown topic": lambda: receiving("unknown-topic", "g-plain"),
    "for an illegal group": lambda: receiving("normal", "a b"),
    "hidden for a second": lambda: receiving("normal", "g-plain", hidden_s=1),
    "hidden for 13 hours": lambda: receiving("normal", "g-plain", hidden_s=13 * 3600),
    "with a wrong expression": lambda: receiving(
        "normal", "g-plain", kind=pb.SQL, expression="a >"
    ),
    "with no kind of expression": lambda: receiving(
        "normal", "g-plain", kind=pb.FILTER_TYPE_UNSPECIFIED, expression="no-such-tag"
    ),
}


def _receive(make: Callable[[], Any]) -> Probe:
    async def asked(asking: Asking) -> Answer:
        return [_response(each) for each in await asking.stream("ReceiveMessage", make())]

    return asked


for _name, _make in _RECEIVES.items():
    PROBES[f"receive {_name}"] = _receive(_make)


@probe
async def a_received_message(asking: Asking) -> Answer:
    """All there is in it, and what acknowledging it says, once and twice."""
    sent = message(
        "normal", tag="marked", keys=["k1", "k2"], user={"color": "blau"}, trace_context="00-trace"
    )
    await asking.call("SendMessage", sending(sent))
    got = await _one(asking, "g-acks", "marked")
    system = got.system_properties
    fields = {each.name for each, _ in system.ListFields()} - {"queue_id"}  # it may be 0
    changed = await asking.call("ChangeInvisibleDuration", _change(got, system.receipt_handle, 20))
    answer = {
        "fields": sorted(fields),
        "user": dict(got.user_properties),
        "tag": system.tag,
        "keys": list(system.keys),
        "digest": pb.DigestType.Name(system.body_digest.type),
        "checksum": system.body_digest.checksum,
        "encoding": pb.Encoding.Name(system.body_encoding),
        "type": pb.MessageType.Name(system.message_type),
        "attempt": system.delivery_attempt,
        "trace": system.trace_context,
        "topic": got.topic.name,
        "changed": code(changed.status),
        "changed handle": changed.receipt_handle != system.receipt_handle,
        "by the old handle": await _acked(asking, got, system.receipt_handle),
        "by the new handle": await _acked(asking, got, changed.receipt_handle),
        "by it again": await _acked(asking, got, changed.receipt_handle),
        "by garbage": await _acked(asking, got, "garbage"),
        "by nothing": await _acked(asking, got, ""),
    }
    for name, seconds in (("negative", -1), ("13 hours", 13 * 3600)):
        late = await asking.call(
            "ChangeInvisibleDuration", _change(got, changed.receipt_handle, seconds)
        )
        answer[f"changed to {name}"] = code(late.status)
    garbage = await asking.call("ChangeInvisibleDuration", _change(got, "garbage", 20))
    answer["changed by garbage"] = code(garbage.status)
    return answer


@probe
async def a_dead_letter(asking: Asking) -> Answer:
    await asking.call("SendMessage", sending(message("normal", tag="dead")))
    got = await _one(asking, "g-acks", "dead")
    answers = []
    for handle in ("garbage", got.system_properties.receipt_handle):
        answer = await asking.call(
            "ForwardMessageToDeadLetterQueue",
            pb.ForwardMessageToDeadLetterQueueRequest(
                group=pb.Resource(name="g-acks"),
                topic=got.topic,
                receipt_handle=handle,
                message_id=got.system_properties.message_id,
                delivery_attempt=1,
                max_delivery_attempts=1,
            ),
        )
        answers.append(code(answer.status))
    again = await _acked(asking, got, got.system_properties.receipt_handle)
    return {"garbage": answers[0], "forwarded": answers[1], "acknowledged then": again}


@probe
async def transactions(asking: Asking) -> Answer:
    answers = {}
    for name, resolution in (("committed", pb.COMMIT), ("rolled back", pb.ROLLBACK)):
        half = message("transaction", pb.TRANSACTION)
        entry = (await asking.call("SendMessage", sending(half))).entries[0]
        ended = await asking.call("EndTransaction", _end(half, entry.transaction_id, resolution))
        answers[name] = code(ended.status)
    for name, word in (("blank", ""), ("garbage", "garbage")):
        ended = await asking.call("EndTransaction", _end(message("transaction"), word, pb.COMMIT))
        answers[name] = code(ended.status)
    return answers


@probe
async def recalls(asking: Asking) -> Answer:
    sent = await asking.call("SendMessage", sending(message("delay", pb.DELAY, after_s=600)))
    handle = sent.entries[0].recall_handle
    answers = {}
    for name, word, text in (
        ("good", "delay", handle),
        ("again", "delay", handle),
        ("garbage", "delay", "garbage"),
        ("nothing", "delay", ""),
        ("of a normal topic", "normal", handle),
        ("of an unknown topic", "unknown-topic", handle),
    ):
        answer = await asking.call(
            "RecallMessage", pb.RecallMessageRequest(topic=topic(word), recall_handle=text)
        )
        answers[name] = code(answer.status)
    return answers


@probe
async def termination(asking: Asking) -> Answer:
    client = asking.other("leaving")
    await client.settle(subscribing("g-plain"))
    answer = await client.call(
        "NotifyClientTermination",
        pb.NotifyClientTerminationRequest(group=pb.Resource(name="g-plain")),
    )
    return code(answer.status)


async def _one(asking: Asking, group: str, tag: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        answers = await asking.stream(
            "ReceiveMessage", receiving("normal", group, expression=tag, batch=1)
        )
        for each in answers:
            if each.HasField("message"):
                return each.message
    raise AssertionError(f"no message with the tag {tag} came")


def _change(got: Any, handle: str, seconds: int) -> Any:
    request = pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name="g-acks"),
        topic=got.topic,
        receipt_handle=handle,
        message_id=got.system_properties.message_id,
    )
    request.invisible_duration.FromMilliseconds(seconds * 1000)
    return request


async def _acked(asking: Asking, got: Any, handle: str) -> Answer:
    answer = await asking.call(
        "AckMessage",
        pb.AckMessageRequest(
            group=pb.Resource(name="g-acks"),
            topic=got.topic,
            entries=[
                pb.AckMessageEntry(
                    message_id=got.system_properties.message_id, receipt_handle=handle
                )
            ],
        ),
    )
    return [code(answer.status), *(code(entry.status) for entry in answer.entries)]


def _end(half: Any, transaction_id: str, resolution: int) -> Any:
    return pb.EndTransactionRequest(
        topic=topic("transaction"),
        message_id=half.system_properties.message_id,
        transaction_id=transaction_id,
        resolution=resolution,
        source=pb.SOURCE_CLIENT,
    )


def _response(response: Any) -> str:
    which = response.WhichOneof("content")
    return code(response.status) if which == "status" else which


async def answers_of(address: str) -> dict[str, Answer]:
    """Make all calls, one after the other; what gRPC itself says no to is told by its code."""
    found: dict[str, Answer] = {}
    async with Asking.connected(address, "answers") as asking:
        await asking.settle(subscribing("g-plain"))
        for name, asked in PROBES.items():
            found[name.replace("_", " ")] = await _answer(asked, asking)
    return found


async def _answer(asked: Probe, asking: Asking) -> Answer:
    for _ in range(_TRIES):
        try:
            return await asked(asking)
        except grpc.aio.AioRpcError as error:
            answer = f"gRPC {error.code().name}"
            # The client's own word for a call that was ended while it wrote: what by is not known.
            if error.code() is not grpc.StatusCode.INTERNAL:
                break
    return answer
