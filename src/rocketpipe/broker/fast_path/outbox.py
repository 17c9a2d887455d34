"""Answers that leave together, at the end of a turn of the loop."""

from __future__ import annotations

from rocketpipe.remoting.connection import PeerConnection


class Outbox:
    """Peers that have something to be told at the end of the turn."""

    def __init__(self) -> None:
        self._peers: list[PeerConnection] = []

    def post(self, peer: PeerConnection, frame: bytes) -> None:
        outbox = peer.outbox
        outbox.append(frame)
        if len(outbox) == 1:
            self._peers.append(peer)

    def flush(self) -> None:
        peers, self._peers = self._peers, []
        for peer in peers:
            peer.flush()
