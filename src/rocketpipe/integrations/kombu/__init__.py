"""Celery, and whatever else is built on Kombu, without Redis or RabbitMQ.

    import rocketpipe.integrations.kombu  # so that Kombu knows the scheme

    app = Celery("tasks", broker="rocketpipe://127.0.0.1:9876//")

The address is that of a NameServer. ``docs/how-to/celery.md`` has the rest.
"""

from kombu.transport import TRANSPORT_ALIASES

from rocketpipe.integrations.kombu.transport import Transport

__all__ = ["Transport"]

#: With ``rocketpipes`` everything is encrypted, as with ``amqps``.
for _scheme in ("rocketpipe", "rocketpipes"):
    TRANSPORT_ALIASES[_scheme] = "rocketpipe.integrations.kombu:Transport"
