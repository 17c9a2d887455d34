"""A request of any kind, with something in every field that needs it."""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import Enum
from typing import Any

import msgspec

from rocketpipe.protocol.request import Request

_NAMES = {
    "group": "readers",
    "consumer_group": "readers",
    "compare_group": "readers",
    "src_group": "readers",
    "dest_group": "readers",
    "group_name": "readers",
    "producer_group": "pg",
    "application": "app",
    "username": "somebody",
    "subject": "User:somebody",
    "access_key": "somebody",
    "recall_handle": "x",
}


def any_request(kind: type[Request[Any]], topic: str = "orders") -> Request[Any]:
    """Make one: its topics are ``topic``, its groups ``readers``, its application ``app``."""
    return typing.cast("Request[Any]", _made(kind, topic))


def _made(kind: Any, topic: str) -> Any:
    hints = typing.get_type_hints(kind)
    if issubclass(kind, msgspec.Struct):
        return kind(
            **{
                field.name: _value(field.name, hints[field.name], topic)
                for field in msgspec.structs.fields(kind)
                if field.required or _is_many(hints[field.name])
            }
        )
    return kind(
        **{
            field.name: _value(field.name, hints[field.name], topic)
            for field in dataclasses.fields(kind)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
    )


def _is_many(hint: Any) -> bool:
    if typing.get_origin(hint) is not tuple:
        return False
    inner = typing.get_args(hint)[0]
    return isinstance(inner, type) and issubclass(inner, msgspec.Struct)


def _value(name: str, hint: Any, topic: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _value(name, typing.get_args(hint)[0], topic)
    if origin in (typing.Union, types.UnionType):
        return _value(name, typing.get_args(hint)[0], topic)
    if origin is tuple:
        return (_value(name, typing.get_args(hint)[0], topic),)
    if origin is dict:
        return {}
    if hasattr(hint, "__supertype__"):
        return _value(name, hint.__supertype__, topic)
    if hint is str:
        return _NAMES.get(name, topic)
    if hint is bytes:
        return b"\0"
    if hint is bool:
        return False
    if hint in (int, float):
        return 0
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    if isinstance(hint, type) and issubclass(hint, str):
        return hint(_NAMES.get(name, topic))
    return _made(hint, topic)
