"""A schema registry that speaks Confluent's HTTP API: schemas by id, and the latest of a subject.

    GET /schemas/ids/7?format=serialized                   {"schemaType": "AVRO", "schema": "…"}
    GET /subjects/orders-value/versions/latest?format=…    the same, with id and version

A body begins with the id of the schema it was written by:

    0            1 byte     always 0
    id           4 bytes    big-endian
    indexes      varints    Protobuf alone: which message of its file; one 0 means the first

What an id means never changes, so it is asked for once by a process. Redirects are not followed.
Who asks is told by ``ROCKETPIPE_REGISTRY_AUTH``, ``user:password`` or ``Bearer …``, or by the file
that ``ROCKETPIPE_REGISTRY_AUTH_FILE`` names, where the task runs: neither is part of a plan.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from rocketpipe.pipeline.formats.errors import (
    BodySchemaError,
    NotRegistered,
    RegistryAway,
    RegistryError,
)

AUTH: Final = "ROCKETPIPE_REGISTRY_AUTH"
AUTH_FILE: Final = "ROCKETPIPE_REGISTRY_AUTH_FILE"

HEAD_BYTES: Final = 5
#: The longest answer that is read, and how long one may take.
MAX_ANSWER: Final = 8 << 20
TIMEOUT_S: Final = 10.0
ATTEMPTS: Final = 4
_FIRST_PAUSE_S: Final = 0.1
#: Ids that are remembered; unknown ones for a while only, as they may be registered meanwhile.
MOST_KNOWN: Final = 1_000
UNKNOWN_FOR_S: Final = 60.0
_MOST_REFERENCES: Final = 100
#: What the registry's own error codes say: no such subject, version, schema.
_NOT_THERE: Final = frozenset({40401, 40402, 40403})
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that one uses: the name it has there, and where it is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema as a registry gives it."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    #: The id that bodies begin with, if the registry says it.
    number: int | None = None


class Registry:
    """Asks one registry, and remembers what ids mean."""

    def __init__(self, url: str) -> None:
        """Take its address; nothing is asked yet.

        Raises:
            BodySchemaError: If it is no such address.
        """
        self.url = checked_url(url)
        self._by_id: OrderedDict[int, Registered] = OrderedDict()
        self._unknown: OrderedDict[int, tuple[float, str]] = OrderedDict()

    def by_id(self, number: int) -> Registered:
        """The schema that an id stands for.

        Raises:
            NotRegistered: If the registry has none.
            RegistryAway: If it cannot be reached, or is in trouble.
            RegistryError: If it answers otherwise than a registry.
        """
        known = self._by_id.get(number)
        if known is not None:
            return known
        since, reason = self._unknown.get(number, (0.0, ""))
        if reason and time.monotonic() - since < UNKNOWN_FOR_S:
            raise NotRegistered(self.url, reason)
        try:
            found = self._schema(f"/schemas/ids/{number}", f"schema {number}")
            found = replace(found, number=number)
        except NotRegistered as error:
            _keep(self._unknown, number, (time.monotonic(), error.reason))
            raise
        _keep(self._by_id, number, found)
        return found

    def version(self, subject: str, version: int | str = "latest") -> Registered:
        """A version of what is registered under a subject; raises as `by_id`."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        return self._schema(path, f"version {version} of subject {subject!r}")

    def references(self, schema: Registered) -> dict[str, Registered]:
        """All that a schema uses, by name; each comes behind what it uses itself.

        Raises:
            BodySchemaError: If they are too many.
            RegistryError: As `by_id`.
        """
        found: dict[str, Registered] = {}
        self._collect(schema, found, depth=0)
        return found

    def _collect(self, schema: Registered, found: dict[str, Registered], depth: int) -> None:
        for each in schema.references:
            if each.name in found:
                continue
            if depth > _MOST_REFERENCES or len(found) >= _MOST_REFERENCES:
                raise BodySchemaError(
                    f"subject {each.subject!r}", f"more than {_MOST_REFERENCES} references"
                )
            used = self.version(each.subject, each.version)
            self._collect(used, found, depth + 1)
            found[each.name] = used

    def _schema(self, path: str, what: str) -> Registered:
        answer = self._get(f"{path}?format=serialized", what)
        text = answer.get("schema")
        kind = answer.get("schemaType", "AVRO")
        references = answer.get("references") or []
        try:
            used = tuple(
                Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in references
            )
        except (KeyError, TypeError, ValueError):
            used = None
        if not isinstance(text, str) or not isinstance(kind, str) or used is None:
            raise RegistryError(self.url, f"its answer for {what} is none of a schema registry")
        number = answer.get("id")
        return Registered(kind, text, used, number if type(number) is int else None)

    def _get(self, path: str, what: str) -> Mapping[str, Any]:
        pause_s = _FIRST_PAUSE_S
        for attempt in range(ATTEMPTS):
            try:
                status, body = self._ask(path)
            except (OSError, http.client.HTTPException) as error:
                away = RegistryAway(self.url, f"cannot be reached ({_told(error)}): is it running?")
                if isinstance(error, ssl.SSLCertVerificationError) or attempt == ATTEMPTS - 1:
                    raise away from error
            else:
                if status < 500 and status != 429:
                    return self._read(status, body, what)
                if attempt == ATTEMPTS - 1:
                    raise RegistryAway(self.url, f"answers with HTTP {status} for {what}")
            time.sleep(pause_s)
            pause_s *= 2
        raise AssertionError("unreachable")

    def _ask(self, path: str) -> tuple[int, bytes]:
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
        headers = {"Accept": _ACCEPT, "Connection": "close"} | _authorization()
        with _limited(connection) as overdue:
            connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
            answer = connection.getresponse()
            read = answer.read(MAX_ANSWER + 1)
            if overdue.is_set():
                raise TimeoutError("timed out")
            if len(read) > MAX_ANSWER:
                raise RegistryError(self.url, f"an answer has more than {MAX_ANSWER} bytes")
            return answer.status, read

    def _read(self, status: int, body: bytes, what: str) -> Mapping[str, Any]:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if status == 200 and isinstance(answer, dict):
            return answer
        if status in (401, 403):
            raise RegistryError(
                self.url, f"refuses us (HTTP {status}): set {AUTH}=user:password, or {AUTH_FILE}"
            )
        code = answer.get("error_code") if isinstance(answer, dict) else None
        if status == 404 and code in _NOT_THERE:
            raise NotRegistered(self.url, f"{what} is not there")
        if 300 <= status < 400:
            raise RegistryError(self.url, "points elsewhere (a redirect): give that address itself")
        raise RegistryError(
            self.url, f"answers with HTTP {status} for {what}: is it a schema registry?"
        )


@contextmanager
def _limited(connection: http.client.HTTPConnection) -> Iterator[threading.Event]:
    """End a conversation when its time is over, also one that goes on byte by byte."""
    overdue = threading.Event()

    def cut() -> None:
        overdue.set()
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    watch = threading.Timer(TIMEOUT_S, cut)
    try:
        connection.connect()
        watch.start()
        yield overdue
    except (http.client.HTTPException, OSError):
        if overdue.is_set():
            raise TimeoutError("timed out") from None
        raise
    finally:
        watch.cancel()
        connection.close()


_registries: dict[str, Registry] = {}


def registry_at(url: str) -> Registry:
    """The registry at an address, with what this process has learnt of it."""
    found = _registries.get(url)
    if found is None:
        found = _registries[url] = Registry(url)
    return found


def checked_url(url: str) -> str:
    """An address as it is used.

    Raises:
        BodySchemaError: If it is none, or has a password in it.
    """
    shown = url.split("@")[-1]
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise BodySchemaError("schema registry", f"{shown!r} is not like http://registry:8081")
    if parts.username is not None or parts.password is not None:
        raise BodySchemaError(
            "schema registry",
            f"the address {shown!r} has a user in it, which plans and logs would show: set "
            f"{AUTH}=user:password, or {AUTH_FILE}",
        )
    if parts.query or parts.fragment:
        raise BodySchemaError("schema registry", f"{shown!r} has more than an address and a path")
    return url.strip().rstrip("/")


def _authorization() -> dict[str, str]:
    given = os.environ.get(AUTH, "").strip()
    path = os.environ.get(AUTH_FILE)
    if not given and path:
        try:
            given = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RegistryError(AUTH_FILE, f"{path} cannot be read ({_told(error)})") from None
    if not given:
        return {}
    if "\n" in given or "\r" in given:
        raise RegistryError(AUTH_FILE, "has more than one line")
    if given.lower().startswith("bearer "):
        return {"Authorization": given}
    return {"Authorization": f"Basic {base64.b64encode(given.encode()).decode()}"}


def _keep(known: OrderedDict[int, Any], number: int, value: Any) -> None:
    known[number] = value
    known.move_to_end(number)
    while len(known) > MOST_KNOWN:
        known.popitem(last=False)


def _told(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
