"""One RPC that came in: who calls, from where, for which namespace, and how long they wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rocketpipe.auth.gate import LoginRefused
from rocketpipe.errors import RequestRejected
from rocketpipe.protocol.codes import Language
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.rpc.call import Call
from rocketpipe.proxy.sessions import Session, Sessions
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.v2 import messaging_pb2 as pb

CLIENT_ID: Final = "x-mq-client-id"
NAMESPACE: Final = "x-mq-namespace"
LANGUAGE: Final = "x-mq-language"
VERSION: Final = "x-mq-client-version"
MAX_CLIENT_ID: Final = 255

_LANGUAGES: Final[Mapping[str, Language]] = {
    **Language.__members__,
    # As the settings of clients spell them.
    "GOLANG": Language.GO,
    "DOT_NET": Language.DOTNET,
}


@dataclass(frozen=True, slots=True)
class RpcCall:
    """Who asks."""

    session: Session
    namespace: str
    version: str
    #: Who it is by the word of the backend's guard.
    by: Any
    #: Until its deadline; None if it has none.
    remaining_ms: int | None


class Entrance:
    """Reads what calls come with, and says who is let in."""

    def __init__(self, backend: Backend, sessions: Sessions) -> None:
        self._backend = backend
        self._sessions = sessions

    def enter(self, call: Call, rpc: str) -> RpcCall:
        """Let a call in.

        Raises:
            Refused: It does not say who it is, or nobody is let in so.
        """
        # Not kept: calls may last, and be many.
        metadata, call.metadata = call.metadata, {}
        client_id = metadata.get(CLIENT_ID, "").strip()
        if not client_id:
            raise Refused(pb.CLIENT_ID_REQUIRED, f"{CLIENT_ID} is missing: name this client")
        if len(client_id) > MAX_CLIENT_ID:
            raise Refused(
                pb.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"{CLIENT_ID} has {len(client_id)} characters, {MAX_CLIENT_ID} are the most",
            )
        address = call.address
        try:
            by = self._backend.admit(metadata, address, rpc)
        except RequestRejected as error:
            if isinstance(error, LoginRefused):
                call.login_failed(error.is_flood)
            raise Refused(pb.UNAUTHORIZED, error.remark) from error
        namespace = metadata.get(NAMESPACE, "")
        session = self._sessions.visit(
            getattr(by, "name", ""),
            client_id,
            address,
            namespace,
            _LANGUAGES.get(metadata.get(LANGUAGE, "").upper(), Language.OTHER),
        )
        remaining = call.time_remaining()
        return RpcCall(
            session,
            namespace,
            metadata.get(VERSION, ""),
            by,
            None if remaining is None else int(remaining * 1000),
        )
