"""What ``broker_transport_options`` may say, and the URL with it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from rocketpipe import TlsSettings

DEFAULT_PORT: Final = 9876
_DAY_S: Final = 24 * 3600

#: What Kombu itself reads.
_KOMBUS: Final = frozenset(
    {
        "body_encoding",
        "callback",
        "client_properties",
        "connect_retries_timeout",
        "deadletter_queue",
        "errback",
        "interval_max",
        "interval_start",
        "interval_step",
        "max_retries",
        "polling_interval",
    }
)
_SSL: Final = {"ca_certs": "ca_file", "certfile": "cert_file", "keyfile": "key_file"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that can be set, by the names that it has in ``broker_transport_options``."""

    #: NameServers of one cluster, as ``a:9876;b:9876``, in the place of the URL's one.
    name_servers: str | None = None
    #: Seconds that a task is not given to another worker after its own was heard of last.
    visibility_timeout: float = 60
    #: How often a task is given out before it becomes a dead letter.
    max_deliveries: int = 100
    #: Which priorities are told apart, in queues that have ``x-max-priority``.
    priority_steps: tuple[int, ...] = (0, 3, 6, 9)
    #: Queues that each broker has of a topic: tasks are given out in order with one.
    topic_queues: int = 1
    #: The longest delay of brokers (``timerMaxDelaySec``), in seconds: longer ones go in hops.
    max_delay: float = 3 * _DAY_S
    #: The longest message, which brokers have to allow too (``maxMessageSize``).
    max_message_bytes: int = 4 * 1024 * 1024
    #: What the names of topics and of the group begin with.
    prefix: str = "kombu"
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    secret_key_file: str | None = None
    #: Whether connections are encrypted; without a word, the environment says so.
    tls: bool | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        _check("visibility_timeout", self.visibility_timeout, 1, 3 * _DAY_S)
        _check("max_deliveries", self.max_deliveries, 1, 2**31 - 1)
        _check("topic_queues", self.topic_queues, 1, 64)
        _check("max_message_bytes", self.max_message_bytes, 1, 2**31 - 1)
        _check("max_delay", self.max_delay, 31, 10 * 365 * _DAY_S)
        if any(not 0 <= step <= 9 for step in self.priority_steps) or 0 not in self.priority_steps:
            raise ValueError(
                f"priority_steps {list(self.priority_steps)}: numbers from 0 to 9, 0 among them"
            )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Take what the settings say.

        Raises:
            ValueError: If there is no such option, or it has no such value.
        """
        known = {each.name for each in fields(cls)}
        for name in given:
            if name not in known and name not in _KOMBUS:
                near = difflib.get_close_matches(name, sorted(known), 1, 0.75)
                meant = (
                    f"is {near[0]!r} meant?" if near else f"there are {', '.join(sorted(known))}"
                )
                raise ValueError(f"broker_transport_options has no {name!r}: {meant}")
        own = {name: value for name, value in given.items() if name in known}
        if "priority_steps" in own:
            own["priority_steps"] = tuple(sorted(set(own["priority_steps"])))
        return cls(**own)

    def tls_settings(self, ssl: object) -> bool | TlsSettings | None:
        """Whether to encrypt, and whom to trust; ``ssl`` is what ``broker_use_ssl`` says.

        Raises:
            ValueError: If that has an entry which is not known.
        """
        files: dict[str, str | None] = {
            "ca_file": self.ca_file,
            "cert_file": self.cert_file,
            "key_file": self.key_file,
        }
        if isinstance(ssl, Mapping):
            for name, value in ssl.items():
                own = _SSL.get(name.removeprefix("ssl_"))
                if own is None:
                    raise ValueError(f"broker_use_ssl has no {name!r}: there are {', '.join(_SSL)}")
                files[own] = str(value)
        if any(files.values()) or not self.verify:
            return TlsSettings(
                ca_file=files["ca_file"],
                cert_file=files["cert_file"],
                key_file=files["key_file"],
                verify=self.verify,
            )
        return True if ssl else self.tls


def _check(name: str, value: float, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise ValueError(f"{name} {value!r}: a number from {least} to {most}")
