"""What the gRPC port allows, and how long it waits: RocketMQ's figures unless a word says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_PORT: Final = 8081
#: What a request has beside a body of the greatest length: properties, names, protobuf's own.
_OVERHEAD_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfig:
    """Limits and times of one gRPC port."""

    #: RPCs at a time, those of telemetry among them; whoever comes then is turned away.
    max_rpcs: int = 30_000
    #: All headers of one call.
    max_header_bytes: int = 16 * 1024
    #: Requests of which a part has come, all together; at least two of the longest.
    max_unfinished_bytes: int = 64 * 1024 * 1024
    #: Streams on one connection; more wait in the client.
    max_streams: int = 4096
    max_clients: int = 20_000
    #: Receives that wait for a message.
    max_waiting_receives: int = 20_000
    #: Receipts that are renewed for consumers.
    max_renewed: int = 200_000
    #: What was told a client and it has not taken yet; whoever leaves more is dropped.
    max_unsent_commands: int = 64
    #: How long a stream may take nothing of what is written to it, and a request may come.
    slow_reader_ms: int = 10_000
    #: What readers that take nothing may make us hold in all.
    max_unread_bytes: int = 64 * 1024 * 1024
    #: A client without a telemetry stream that says nothing for so long is gone.
    silent_client_ms: int = 30_000
    sweep_ms: int = 5_000

    max_batch: int = 32
    min_polling_ms: int = 5_000
    max_polling_ms: int = 20_000
    #: As long as a broker is waited for, beside the polling.
    timeout_ms: int = 5_000
    min_invisible_ms: int = 10_000
    max_invisible_ms: int = 12 * 3600 * 1000
    #: What messages are hidden for whose receipts are renewed here.
    renewed_invisible_ms: int = 60_000
    max_delay_ms: int = 24 * 3600 * 1000
    max_recovery_ms: int = 3600 * 1000
    max_user_properties: int = 128
    max_properties_bytes: int = 16 * 1024
    #: Less than so many bytes of UTF-8.
    max_message_group: int = 64
    #: How long a client has for an answer on its telemetry stream.
    relay_ms: int = 5_000

    def max_inbound_bytes(self, max_body_bytes: int) -> int:
        """The longest request that is read: what the broker would store, and not 130 MiB."""
        return max_body_bytes + _OVERHEAD_BYTES
