from __future__ import annotations

from rocketpipe.proxy.v2.rpcs import RPCS, SERVICE


def test_all_rpcs_are_there_by_their_names() -> None:
    assert SERVICE == "apache.rocketmq.v2.MessagingService"
    assert len(RPCS) == 17
    by_name = {rpc.name: rpc for rpc in RPCS}
    telemetry, receive = by_name["Telemetry"], by_name["ReceiveMessage"]
    assert (telemetry.takes_stream, telemetry.gives_stream) == (True, True)
    assert (receive.takes_stream, receive.gives_stream) == (False, True)
    assert receive.path == "/apache.rocketmq.v2.MessagingService/ReceiveMessage"
    assert receive.request().DESCRIPTOR.full_name == "apache.rocketmq.v2.ReceiveMessageRequest"
