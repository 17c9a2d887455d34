"""The telemetry stream: settings both ways, and the answers to what clients are asked.

The first settings register a client with the brokers; each later ones do so anew. What cannot be
handled ends the stream, as RocketMQ's proxy does: with INVALID_ARGUMENT if the client is to blame.
"""

from __future__ import annotations

import asyncio
from typing import Final

from rocketpipe.errors import RocketPipeError
from rocketpipe.model.group import GroupSettings
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.calls import RpcCall
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.rpc.call import Call
from rocketpipe.proxy.rpc.codes import RpcAborted, StatusCode, abort
from rocketpipe.proxy.sessions import Session
from rocketpipe.proxy.status import Refused, ok, status_of
from rocketpipe.proxy.streams import TelemetryStream
from rocketpipe.proxy.translation.settings import answer_to, heartbeat_of
from rocketpipe.proxy.translation.times import ms_of
from rocketpipe.proxy.turns import Turns
from rocketpipe.proxy.v2 import messaging_pb2 as pb

_FIRST_OF_OURS: Final = 50_000
_AT_A_TURN: Final = 16
_LEAST_TIMEOUT_MS: Final = 100
_MOST_TIMEOUT_MS: Final = 60_000


class Telemetry:
    """Serves telemetry streams."""

    def __init__(self, backend: Backend, config: ProxyConfig) -> None:
        self._backend = backend
        self._config = config
        #: A client may have many streams, with many commands in each.
        self._turns = Turns(_AT_A_TURN)

    async def serve(self, told: Call, call: RpcCall) -> None:
        """Read one stream until it ends."""
        session = call.session
        reading = asyncio.current_task()
        assert reading is not None
        stream = TelemetryStream(told, self._config, reading.cancel)
        try:
            while (command := await told.read()) is not None:
                await self._turns.begin()
                await self._take(command, call, stream)
        except asyncio.CancelledError:
            if not stream.is_over:
                raise
            reading.uncancel()
            abort(StatusCode.CANCELLED, "this telemetry stream is over")
        except RpcAborted:
            raise
        except RocketPipeError as error:
            raise _aborted(error) from error
        finally:
            session.closed(stream)
            stream.is_over = True

    async def _take(
        self, command: pb.TelemetryCommand, call: RpcCall, stream: TelemetryStream
    ) -> None:
        session = call.session
        which = command.WhichOneof("command")
        if which == "settings":
            if session.stream is not stream:
                session.opened(stream)
            stream.put(await self._settled(command.settings, call))
        elif which in ("thread_stack_trace", "verify_message_result"):
            session.answered(getattr(command, which).nonce, command)
        elif which is not None:
            raise Refused(pb.BAD_REQUEST, f"{which} is what servers tell, not clients")

    async def _settled(self, settings: pb.Settings, call: RpcCall) -> pb.TelemetryCommand:
        session = call.session
        data = heartbeat_of(settings, session.client_id, call.namespace)
        await self._backend.beat(session, data, call.by)
        session.settings, session.data = settings, data
        asked_ms = ms_of(settings.request_timeout)
        if asked_ms:
            session.request_timeout_ms = min(max(asked_ms, _LEAST_TIMEOUT_MS), _MOST_TIMEOUT_MS)
        answer = answer_to(
            settings,
            self._config,
            max_body_bytes=self._backend.max_body_bytes,
            checks_types=self._backend.checks_message_types,
            group=await self._group(session),
        )
        return pb.TelemetryCommand(status=ok(), settings=answer)

    async def _group(self, session: Session) -> GroupSettings | None:
        if session.data is None or not session.data.consumers:
            return None
        return await self._backend.group(session.data.consumers[0].group_name)


def _aborted(error: Exception) -> RpcAborted:
    told = status_of(error, "Telemetry")
    code = StatusCode.INVALID_ARGUMENT
    if told.code >= _FIRST_OF_OURS:
        code = StatusCode.INTERNAL
    return RpcAborted(code, f"{pb.Code.Name(told.code)}: {told.message}")
