"""Messages to look after."""

from __future__ import annotations

from rocketpipe.client.session import Session
from rocketpipe.model import properties as well_known
from rocketpipe.protocol.requests.sending import SendMessage, SendMessageReply


async def send(
    session: Session,
    topic: str,
    body: bytes,
    *,
    queue_id: int = 0,
    keys: str = "",
    unique: str = "",
) -> SendMessageReply:
    """Send one message to one queue of the topic's broker."""
    route = await session.routes.get(topic)
    address = route.brokers[0].leader
    assert address is not None
    named = {well_known.UNIQ_KEY: unique or session.keys.next(session.clock.now_ms())}
    if keys:
        named[well_known.KEYS] = keys
    request = SendMessage(
        producer_group="p",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=session.clock.now_ms(),
        flag=0,
        properties=well_known.encode(named),
        body=body,
    )
    return await session.caller.call(address, request)
