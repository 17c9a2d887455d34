"""``rocketpipe proxy`` with users of its own: it asks who comes, and brokers know it alone."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from tests.proxy.support.calling import GrpcClient, endpoints, message, named, signed

from rocketpipe import Admin
from rocketpipe.auth.gate import Gate
from rocketpipe.auth.needs import Surroundings
from rocketpipe.auth.policy import Action, Decision, Entry, Part, Policy, Resource
from rocketpipe.auth.secret import Secret
from rocketpipe.auth.subject import User, UserType
from rocketpipe.auth.users import PolicyTable, UserTable
from rocketpipe.cli.main import main
from rocketpipe.model.topic import MessageType
from rocketpipe.proxy.front.front import Front
from rocketpipe.proxy.remote.backend import RemoteBackend
from rocketpipe.proxy.server import grpc_port
from rocketpipe.proxy.v2 import messaging_pb2 as pb
from rocketpipe.testing import cluster

pytestmark = pytest.mark.scenario

RIGHTS = {
    "owner": ("Topic:orders", Action.PUB),
    "spy": ("Topic:spies", Action.PUB),
}


def secret_of(name: str) -> str:
    return f"the-secret-of-{name}"


def gate() -> Gate:
    users = [
        User(name=name, secret=Secret(secret_of(name)), type=UserType.NORMAL) for name in RIGHTS
    ]
    policies = [
        Policy(
            subject=f"User:{name}",
            entries={
                Part.CUSTOM: (
                    Entry(
                        resource=Resource.parse(resource),
                        actions=frozenset({action}),
                        sources=(),
                        decision=Decision.ALLOW,
                    ),
                )
            },
        )
        for name, (resource, action) in RIGHTS.items()
    ]
    return Gate(
        UserTable.in_memory(*users),
        PolicyTable.in_memory(*policies),
        around=Surroundings(cluster="DefaultCluster"),
    )


async def test_who_comes_to_a_proxy_is_judged_there(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Admin(servers.name_server) as admin:
        for topic in ("orders", "spies"):
            await admin.topics.create(topic, queues=1, message_type=MessageType.TRANSACTION)
        async with (
            RemoteBackend.opened(servers.name_server, gate=gate()) as backend,
            grpc_port(backend, "127.0.0.1", 0, listen=Front(None).listen) as address,
            grpc.aio.insecure_channel(address) as channel,
        ):
            stranger = GrpcClient(channel, {"x-mq-client-id": "one", "x-mq-language": "PYTHON"})
            owner = signed(stranger, "owner", secret_of("owner"))
            spy = signed(stranger, "spy", secret_of("spy"))
            half = message("orders", b"half", message_type=pb.TRANSACTION)
            for nobody in (stranger, signed(stranger, "owner", "another-secret")):
                assert (await nobody.send(half)).status.code == pb.UNAUTHORIZED
            assert (await spy.send(half)).status.code == pb.FORBIDDEN
            route = pb.QueryRouteRequest(topic=named("orders"), endpoints=endpoints())
            assert (await spy.call("QueryRoute", route)).status.code == pb.FORBIDDEN
            assert (await owner.call("QueryRoute", route)).status.code == pb.OK
            refused = await owner.refused("orders", "readers")
            assert refused.status.code == pb.FORBIDDEN
            sent = await owner.send(half)
            assert sent.status.code == pb.OK, sent.status.message
            (entry,) = sent.entries
            for who, topic, code in (
                (spy, "spies", pb.FORBIDDEN),  # what it claims is not what the message is of
                (spy, "orders", pb.FORBIDDEN),
                (owner, "orders", pb.OK),
            ):
                ended = await who.call(
                    "EndTransaction",
                    pb.EndTransactionRequest(
                        topic=named(topic),
                        message_id=entry.message_id,
                        transaction_id=entry.transaction_id,
                        resolution=pb.COMMIT,
                        source=pb.SOURCE_CLIENT,
                    ),
                )
                assert ended.status.code == code, ended.status.message


def test_a_proxy_that_asks_needs_a_user_who_may_do_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = tmp_path / "proxy.conf"
    conf.write_text("authenticationEnabled=true\n")
    words = ["proxy", "-c", str(conf), "--grpc", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    assert main(words) == 2
    assert "initAuthenticationUser" in capsys.readouterr().err
