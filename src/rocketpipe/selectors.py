"""Selectors of the queue that a message goes to: what ``selector=`` takes."""

from rocketpipe.client.producer.selectors import (
    AtRandom,
    MachineRooms,
    Selector,
    by_hash,
    java_hash_of,
    room_of,
)

__all__ = ["AtRandom", "MachineRooms", "Selector", "by_hash", "java_hash_of", "room_of"]
