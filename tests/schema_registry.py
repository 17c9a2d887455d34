"""A schema registry: a real HTTP server that speaks the public API of Confluent's, on any port.

    POST /subjects/S/versions              {"schema": …, "schemaType": …, "references": […]}
    GET  /schemas/ids/N
    GET  /subjects/S/versions/latest|N

A Protobuf file is registered, and given, in its serialized form, as ``format=serialized`` asks.
"""

from __future__ import annotations

import json
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit


class SchemaRegistry:
    """A running registry."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        #: The paths that were asked for.
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []
        #: What to answer instead: a status, headers and a body.
        self.instead: tuple[int, dict[str, str], bytes] | None = None
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(urlsplit(self.path).path)
                registry.authorizations.append(self.headers["Authorization"])
                self._answer(*(registry.instead or registry.found(self.path)))

            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                _, _, subject, _ = self.path.split("/")
                self._answer(200, {}, registry.kept(unquote(subject), given))

            def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *what: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def register(
        self, subject: str, schema: Any, kind: str = "AVRO", references: Any = None
    ) -> int:
        """Register a schema as clients do; gives its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        given = {"schema": text, "schemaType": kind, "references": references or []}
        request = urllib.request.Request(
            f"{self.url}/subjects/{quote(subject, safe='')}/versions",
            json.dumps(given).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request) as answer:
            return int(json.load(answer)["id"])

    def kept(self, subject: str, given: dict[str, Any]) -> bytes:
        if given not in self.schemas:
            self.schemas.append(given)
        number = self.schemas.index(given) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return json.dumps({"id": number}).encode()

    def found(self, path: str) -> tuple[int, dict[str, str], bytes]:
        match urlsplit(path).path.split("/")[1:]:
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, {}, json.dumps(self.schemas[int(number) - 1]).encode()
            case ["schemas", "ids", _]:
                return self._missing(40403, "Schema not found")
            case ["subjects", subject, "versions", version]:
                versions = self.subjects.get(unquote(subject))
                if versions is None:
                    return self._missing(40401, "Subject not found")
                number = versions[-1 if version == "latest" else int(version) - 1]
                about = {"subject": unquote(subject), "id": number, "version": version}
                return 200, {}, json.dumps(self.schemas[number - 1] | about).encode()
        return 404, {}, b"no such page"

    def _missing(self, code: int, message: str) -> tuple[int, dict[str, str], bytes]:
        return 404, {}, json.dumps({"error_code": code, "message": message}).encode()


def framed(number: int, content: bytes, indexes: bytes = b"") -> bytes:
    """A body as clients of a registry write it."""
    return b"\x00" + number.to_bytes(4, "big") + indexes + content
