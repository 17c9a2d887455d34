"""EndTransaction: a producer's decision, on its own or asked for."""

from __future__ import annotations

from typing import Final

from rocketpipe.errors import InvalidName
from rocketpipe.model.flags import Transaction
from rocketpipe.protocol.requests.transactions import EndTransaction
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.calls import RpcCall
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.status import Refused, ok
from rocketpipe.proxy.translation.names import topic_name
from rocketpipe.proxy.translation.transaction_id import TransactionId
from rocketpipe.proxy.v2 import messaging_pb2 as pb

_DECISIONS: Final = {
    pb.COMMIT: Transaction.COMMITTED,
    pb.ROLLBACK: Transaction.ROLLED_BACK,
    pb.TRANSACTION_RESOLUTION_UNSPECIFIED: Transaction.NONE,
}


class Transactions:
    """Answers decisions."""

    def __init__(self, backend: Backend, config: ProxyConfig) -> None:
        self._backend = backend
        self._config = config

    async def end(
        self, request: pb.EndTransactionRequest, call: RpcCall
    ) -> pb.EndTransactionResponse:
        """Decide a transaction.

        Raises:
            Refused: The id is none that a send was answered with.
        """
        topic = topic_name(request.topic, call.namespace)
        decision = _DECISIONS.get(request.resolution)
        if decision is None:
            raise Refused(pb.BAD_REQUEST, f"{request.resolution} is neither COMMIT nor ROLLBACK")
        try:
            place = TransactionId.parse(request.transaction_id)
        except InvalidName as error:
            raise Refused(pb.INVALID_TRANSACTION_ID, str(error)) from error
        asked = EndTransaction(
            producer_group=topic,
            tran_state_table_offset=place.queue_offset,
            commit_log_offset=place.log_offset,
            commit_or_rollback=int(decision),
            from_transaction_check=request.source == pb.SOURCE_SERVER_CHECK,
            msg_id=request.message_id,
            transaction_id=place.unique_key,
            topic=topic,
            broker_name=place.broker,
        )
        await self._backend.ask(place.broker, asked, call.session, call.by, self._config.timeout_ms)
        return pb.EndTransactionResponse(status=ok())
