"""On which terms a leader can be followed: how it speaks, and how long its files are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketpipe.broker.config.replication import BrokerRole
from rocketpipe.broker.replication.frames import Dialect
from rocketpipe.config.conf_file import conf_values
from rocketpipe.coordination.coordinator import Leader
from rocketpipe.errors import ConfigError, RequestRejected, RocketPipeError
from rocketpipe.protocol.requests.brokers import GetBrokerConfig
from rocketpipe.protocol.requests.replication import GetEpochCache
from rocketpipe.remoting.caller import Caller, split_address

ASK_WITHIN_MS: Final = 3000
_SEGMENT_KEY: Final = "mappedFileSizeCommitLog"
_ROLE_KEY: Final = "brokerRole"
#: A setting that Apache's brokers do not have.
_OUR_KEY: Final = "haRetainForFollowers"


class OtherFiles(RocketPipeError):
    """The leader's files have another length, and this log is empty: it can take that one."""

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(f"the leader's files have {segment_bytes} bytes")
        self.segment_bytes = segment_bytes


class TermsDiffer(RocketPipeError):
    """The leader's log and this one cannot be the same bytes."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a leader said of itself."""

    dialect: Dialect
    #: None where it did not say.
    segment_bytes: int | None
    #: Whether it is one of ours: its tables are in its log, and its records as we write them.
    ours: bool
    #: Whether what it acknowledged is in the logs of its followers: none of that may be cut.
    waits: bool = False


async def terms_of(caller: Caller, leader: Leader, *, elected: bool) -> Terms:
    """Ask a leader; one that cannot be asked, as only its HA address is known, is plain.

    Raises:
        RocketPipeError: It does not answer.
    """
    if not leader.address:
        return Terms(Dialect.PLAIN, None, ours=False)
    reply = await caller.call(leader.address, GetBrokerConfig(), ASK_WITHIN_MS)
    settings = _settings(reply.properties)
    size = settings.get(_SEGMENT_KEY, "")
    segment_bytes = int(size) if size.isascii() and size.isdigit() else None
    dialect = Dialect.EPOCHS
    if not elected:
        try:
            await caller.call(leader.address, GetEpochCache(), ASK_WITHIN_MS)
        except RequestRejected as error:
            if error.retryable:  # it says nothing now, and would be taken for a plain one for good
                raise
            # Brokers that speak of no epochs say so.
            dialect = Dialect.PLAIN
    return Terms(
        dialect,
        segment_bytes,
        ours=elected or _OUR_KEY in settings,
        waits=settings.get(_ROLE_KEY) == BrokerRole.SYNC_MASTER.value,
    )


async def master_behind(caller: Caller, ha_address: str, cluster: str, name: str) -> str | None:
    """Where the master itself listens that takes slaves there, if that is one port below.

    So it is unless settings say otherwise; what is found there has to say that it is that master.
    """
    _, ha_port = split_address(ha_address)
    address = f"{ha_address.rpartition(':')[0]}:{ha_port - 1}"
    try:
        reply = await caller.call(address, GetBrokerConfig(), ASK_WITHIN_MS)
    except (RocketPipeError, OSError):
        return None
    said = _settings(reply.properties)
    wanted = {"brokerClusterName": cluster, "brokerName": name, "brokerId": "0"}
    if any(said.get(key) != value for key, value in wanted.items()):
        return None
    return address if said.get("haListenPort", "-1") in ("-1", str(ha_port)) else None


def _settings(properties: bytes) -> Mapping[str, str]:
    try:
        return conf_values(properties, "the leader's settings")
    except ConfigError:
        return {}


def check_terms(terms: Terms, segment_bytes: int, *, empty: bool) -> None:
    """See to it that both logs can be the same.

    Raises:
        OtherFiles: They can, once this one has files of the leader's length.
        TermsDiffer: They cannot.
    """
    if terms.segment_bytes is not None and terms.segment_bytes != segment_bytes:
        if empty:
            raise OtherFiles(terms.segment_bytes)
        raise TermsDiffer(
            f"files of this log have {segment_bytes} bytes, the master's have "
            f"{terms.segment_bytes}: empty this slave's directory, or give both the same "
            f"{_SEGMENT_KEY}"
        )
