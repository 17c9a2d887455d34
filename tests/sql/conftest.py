"""Servers with a topic whose bodies are JSON, and somebody to ask them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketpipe.blocking import Admin, Message, Producer
from rocketpipe.testing.servers import Servers, serving


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with serving(tmp_path_factory.mktemp("servers")) as running:
        with Admin(running.name_server) as admin:
            schema = {"body.schema": "city STRING, cents INT"}
            admin.topics.create("orders", queues=2, attributes=schema)
            admin.topics.create("Orders", queues=1)
            admin.topics.create("my-notes", queues=1)
        with Producer(running.name_server) as producer:
            bodies = [b'{"city": "Oslo", "cents": %d}' % number for number in range(10)]
            producer.send_batch([Message("orders", body, tags="new") for body in bodies])
        yield running


@pytest.fixture
def admin(servers: Servers) -> Iterator[Admin]:
    with Admin(servers.name_server) as asking:
        yield asking
