"""Names of queues as names of topics, and back.

    kombu-celery                    the queue "celery"
    kombu-celery_p6                 its messages of priority 6 to 8
    kombu-my__queue_2eeu            the queue "my_queue.eu"
    kombu-staging_vcelery           the queue "celery" of the virtual host "staging"
    kombu-aaaa…_x0f…                a name that would be too long: its beginning, and a hash
    kombu-_t                        what queues of one reader are sent, all of them together

A topic's name has letters, digits, ``-`` and ``_``; every other byte is ``_`` and two hexadecimal
digits, and ``_`` is doubled. So ``_p``, ``_v``, ``_x`` and ``_t`` are in no queue's name.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

MAX_TOPIC: Final = 127
MAX_GROUP: Final = 120
#: The step of a priority, behind the name.
_STEP: Final = re.compile(r"(?<!_)((?:__)*)_p(\d+)$")
_ESCAPED: Final = re.compile(r"_(_|[0-9a-f]{2})")
_STEP_ROOM: Final = len("_p9")
_HASH_LETTERS: Final = 32

_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")


def escaped(name: str) -> str:
    """A name in the letters that a topic may have."""
    return "".join(
        chr(byte) if byte in _PLAIN else "__" if byte == ord("_") else f"_{byte:02x}"
        for byte in name.encode("utf-8")
    )


def unescaped(text: str) -> str:
    """The name that was escaped."""
    raw = _ESCAPED.sub(lambda found: "_" if found[1] == "_" else chr(int(found[1], 16)), text)
    return raw.encode("latin-1").decode("utf-8")


@lru_cache(maxsize=4096)
def _topic(front: str, queue: str, step: int) -> str:
    name = front + escaped(queue)
    if len(name) > MAX_TOPIC - _STEP_ROOM:
        digest = hashlib.sha256(queue.encode("utf-8")).hexdigest()[:_HASH_LETTERS]
        room = MAX_TOPIC - _STEP_ROOM - len("_x") - _HASH_LETTERS
        # Not in the middle of what is escaped.
        name = name[:room].rstrip("_0123456789abcdef") + f"_x{digest}"
    return f"{name}_p{step}" if step else name


class Names:
    """What the queues of one virtual host are called at the broker."""

    def __init__(self, prefix: str, virtual_host: str) -> None:
        """Take what all names begin with, and the virtual host, of which ``/`` is the usual one."""
        host = virtual_host.strip("/")
        #: What all topics begin with.
        self.front = f"{prefix}-{escaped(host)}_v" if host else f"{prefix}-"
        if len(self.front) > MAX_TOPIC // 2:
            raise ValueError(f"virtual host {virtual_host!r}: its name is too long for topics")
        #: Whom all workers of the virtual host consume for.
        self.group = f"{prefix}-{escaped(host)}" if host else prefix
        #: Where messages go whose queue has one reader that keeps nothing.
        self.transient_topic = f"{self.front}_t"
        #: Whom these are read for; nobody's place in it is kept.
        self.transient_group = f"{self.group}_t"
        #: Where NameServers keep bindings.
        self.namespace = f"{self.group}_bindings"
        #: And who consumes from queues that go with their last consumer.
        self.lease_namespace = f"{self.group}_leases"

    def topic(self, queue: str, step: int = 0) -> str:
        """The topic of a queue, or of its messages of one step of priority."""
        return _topic(self.front, queue, step)

    def queue(self, topic: str) -> tuple[str, int] | None:
        """The queue and the step of a topic; None if it is no queue's, or its name was too long."""
        if not topic.startswith(self.front):
            return None
        name, step = topic.removeprefix(self.front), 0
        if found := _STEP.search(name):
            name, step = name[: found.start()] + found[1], int(found[2])
        if _ESCAPED.sub("", name).count("_"):  # a mark of ours is left
            return None
        return unescaped(name), step
