"""The RPCs of the service, as the .proto file lists them: for servers, and for tests that call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import message_factory

from rocketpipe.proxy.v2 import messaging_pb2 as pb

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["MessagingService"]
SERVICE: Final[str] = _SERVICE.full_name


@dataclass(frozen=True, slots=True)
class Rpc:
    """One method: what it takes and gives, and which of the two is a stream."""

    name: str
    request: type[Any]
    response: type[Any]
    takes_stream: bool
    gives_stream: bool

    @property
    def path(self) -> str:
        """What stands in the request line of HTTP/2."""
        return f"/{SERVICE}/{self.name}"


RPCS: Final[tuple[Rpc, ...]] = tuple(
    Rpc(
        method.name,
        message_factory.GetMessageClass(method.input_type),
        message_factory.GetMessageClass(method.output_type),
        method.client_streaming,
        method.server_streaming,
    )
    for method in _SERVICE.methods
)
