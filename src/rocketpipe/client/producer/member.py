"""A producer as its session, and by that the brokers, see it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rocketpipe.client.producer.request_reply import OpenRequests
from rocketpipe.client.producer.sending.publish_routes import PublishRoutes
from rocketpipe.client.producer.transactions import Transactions
from rocketpipe.protocol.requests.callbacks import CheckTransactionState, PushReplyMessage
from rocketpipe.protocol.requests.clients import ConsumerData
from rocketpipe.record.codec import RecordView


class ProducerMember:
    """Tells the session what a producer is, and hands on what brokers ask; see ``Member``."""

    def __init__(
        self, group: str, lines: PublishRoutes, transactions: Transactions, requests: OpenRequests
    ) -> None:
        self._group = group
        self._lines = lines
        self._transactions = transactions
        self._requests = requests

    def producer_groups(self) -> Sequence[str]:
        """The one group it produces for."""
        return (self._group,)

    def consumers(self) -> Sequence[ConsumerData]:
        """None: it only sends."""
        return ()

    def topics(self) -> Collection[str]:
        """Those that were sent to."""
        return tuple(self._lines.topics)

    def on_ids_changed(self, group: str) -> None:
        """It has no members to share queues with."""

    def on_routes_changed(self, topic: str) -> None:
        """Look for the topic's queues anew at the next send."""
        self._lines.drop(topic)

    def on_transaction_check(
        self, question: CheckTransactionState, message: RecordView, address: str
    ) -> None:
        """Have the broker told how a transaction ended."""
        self._transactions.on_check(question, message, address)

    def on_reply(self, pushed: PushReplyMessage) -> bool:
        """Hand a reply to whoever asked.

        Raises:
            RecordError: If its body cannot be read.
        """
        return self._requests.take(pushed)
