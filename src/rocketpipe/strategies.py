"""Strategies by which the members of a group share queues: what ``strategy=`` takes."""

from rocketpipe.client.consumer.group.assignment import (
    AVERAGE,
    CIRCLE,
    AssignmentFailed,
    Distance,
    Rooms,
    Share,
    Strategy,
    configured,
    consistent_hash,
    machine_room,
    nearest_room,
    room_nearby,
    room_of_broker,
)

__all__ = [
    "AVERAGE",
    "CIRCLE",
    "AssignmentFailed",
    "Distance",
    "Rooms",
    "Share",
    "Strategy",
    "configured",
    "consistent_hash",
    "machine_room",
    "nearest_room",
    "room_nearby",
    "room_of_broker",
]
