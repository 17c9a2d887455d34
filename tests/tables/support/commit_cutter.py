"""Stands before a PostgreSQL and cuts the connection at COMMIT, once: is it done, or is it not?"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Literal


class CommitCutter:
    """Listens on a port of its own; ``when`` says on which side of the commit the wire is cut."""

    def __init__(self, server_socket: str, when: Literal["before", "after"]) -> None:
        self._server_socket = server_socket
        self._when = when
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    def address(self, database: str) -> str:
        """The way to a database through here."""
        port = self._listener.getsockname()[1]
        return (
            f"postgresql://postgres@127.0.0.1:{port}/{database}?sslmode=disable&gssencmode=disable"
        )

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self._server_socket)
            answers = threading.Thread(target=self._answer, args=(server, client), daemon=True)
            answers.start()
            self._ask(client, server)
            answers.join(10)

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while said := client.recv(65536):
                if b"COMMIT" in said and not self.cuts:
                    self.cuts += 1
                    client.shutdown(socket.SHUT_RDWR)
                    if self._when == "after":
                        server.sendall(said)
                    server.shutdown(socket.SHUT_WR)
                    return
                server.sendall(said)
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        while said := server.recv(65536):
            with suppress(OSError):
                client.sendall(said)
