"""Drives PyPI's rocketmq, the C++ client behind Python: rocketmq_cpp.py NAMESERVER NAME"""

import base64
import json
import os
import sys
import threading
from typing import Any

from rocketmq.client import Message, Producer, PushConsumer, RecvMessage, SendStatus
from rocketmq.exceptions import ffi_check
from rocketmq.ffi import MessageModel, dll
from rocketmq.ffi import _CConsumeStatus as ConsumeStatus

SERVERS, NAME = sys.argv[1:]
#: Those that messages are sent with here; the library has no way to list what a message has.
NAMED_PROPERTIES = ("color", "size")

# Libraries write to standard output too; ours goes where they do not reach.
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
writing = threading.Lock()
producing = threading.Lock()
consumers: dict[str, PushConsumer] = {}
producers: list[Producer] = []


def tell(line: dict[str, Any]) -> None:
    with writing:
        out.write(json.dumps(line) + "\n")
        out.flush()


def text(value: bytes | None) -> str | None:
    return value.decode() if value else None


def sign(made: Producer | PushConsumer) -> None:
    if user := os.environ.get("CLIENT_ACCESS_KEY"):
        made.set_session_credentials(user, os.environ["CLIENT_SECRET_KEY"], "LOCAL")


def producer() -> Producer:
    with producing:
        if not producers:
            made = Producer(f"{NAME}-producers")
            made.set_namesrv_addr(SERVERS)
            sign(made)
            made.start()
            producers.append(made)
        return producers[0]


def message(request: dict[str, Any]) -> Message:
    made = Message(request["topic"])
    made.set_body(base64.b64decode(request["body"]))
    if request["tag"] is not None:
        made.set_tags(request["tag"])
    if request["keys"] is not None:
        made.set_keys(request["keys"])
    if request["delay"]:
        made.set_delay_time_level(request["delay"])
    for name, value in request["properties"].items():
        made.set_property(name, value)
    return made


def answer(result: Any) -> dict[str, Any]:
    if result.status != SendStatus.OK:
        raise RuntimeError(str(result.status))
    return {"id": result.msg_id, "offset": result.offset}


def send(request: dict[str, Any]) -> dict[str, Any]:
    made = message(request)
    if request["order"] is not None:
        return answer(producer().send_orderly(made, sum(request["order"].encode())))
    return answer(producer().send_sync(made))


def consume(request: dict[str, Any]) -> None:
    model = MessageModel.BROADCASTING if request["broadcast"] else MessageModel.CLUSTERING
    made = PushConsumer(request["group"], orderly=request["orderly"], message_model=model)
    made.set_namesrv_addr(SERVERS)
    made.set_instance_name(f"{request['consumer']}-{os.getpid()}")
    sign(made)
    made.set_thread_count(2)
    made.set_message_batch_max_size(1)  # else one failure is that of all that came with it
    fail = dict(request["fail"])
    counting = threading.Lock()

    # The library's own way to subscribe loses the status when a callback raises.
    def on_message(_: Any, handle: Any) -> int:
        got = RecvMessage(handle)
        body = base64.b64encode(got.body).decode()
        named = {name: text(got[name]) for name in NAMED_PROPERTIES}
        tell(
            {
                "received": request["consumer"],
                "body": body,
                "topic": got.topic,
                "tag": text(got.tags),
                "keys": text(got.keys),
                "id": got.id,
                "queue": got.queue_id,
                "offset": got.queue_offset,
                "reconsumed": got.reconsume_times,
                "born_ms": got.born_timestamp,
                "stored_ms": got.store_timestamp,
                "properties": {name: value for name, value in named.items() if value},
            }
        )
        with counting:
            fail[body] = fail.get(body, 0) - 1
            failing = fail[body] >= 0
        status = ConsumeStatus.RECONSUME_LATER if failing else ConsumeStatus.CONSUME_SUCCESS
        return int(status.value)

    topic, expression = request["topic"].encode(), request["expression"].encode()
    ffi_check(dll.Subscribe(made._handle, topic, expression))
    made._register_callback(on_message)
    consumers[request["consumer"]] = made
    made.start()


def stop(request: dict[str, Any]) -> None:
    consumers[request["consumer"]].shutdown()


def leave(_: dict[str, Any]) -> None:
    """Close nothing: now and then the library aborts the process when a producer is closed."""


ACTIONS = {"send": send, "consume": consume, "stop": stop, "quit": leave}


def serve(request: dict[str, Any]) -> None:
    try:
        tell({"id": request["id"], "ok": ACTIONS[request["do"]](request)})
    except Exception as error:
        tell({"id": request["id"], "error": f"{type(error).__name__}: {error}"})


for line in sys.stdin:
    threading.Thread(target=serve, args=(json.loads(line),)).start()
