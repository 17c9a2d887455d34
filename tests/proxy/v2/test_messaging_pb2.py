"""Our .proto against RocketMQ's: what the official client has compiled in says the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

COMPARE = """
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from rocketpipe.proxy.v2 import messaging_pb2 as ours
from rocketmq.grpc_protocol import definition_pb2, service_pb2

def shape(*files):
    found = {}
    def walk(message, prefix=""):
        for field in message.field:
            found[prefix + message.name, field.number] = (
                field.name, field.type, field.label, field.type_name.rpartition(".")[2],
                field.proto3_optional, field.HasField("oneof_index"))
        for nested in message.nested_type:
            walk(nested, message.name + ".")
    for file in files:
        said = FileDescriptorProto()
        file.DESCRIPTOR.CopyToProto(said)
        for message in said.message_type:
            walk(message)
        for enum in said.enum_type:
            for value in enum.value:
                found["enum", enum.name, value.number] = value.name
        for service in said.service:
            for method in service.method:
                found[service.name, method.name] = (
                    method.input_type, method.output_type,
                    method.client_streaming, method.server_streaming)
    return found

class Ours: DESCRIPTOR = ours.DESCRIPTOR
mine, theirs = shape(Ours), shape(definition_pb2, service_pb2)
wrong = {key for key in mine if theirs.get(key) != mine[key]}
missing = {key for key in theirs.keys() - mine.keys()
           if key[0] not in ("OffsetOption", "SyncLiteSubscriptionRequest")}
assert not wrong and not missing, (wrong, missing)
message = ours.Message(body=b"x", topic=ours.Resource(name="t"))
assert definition_pb2.Message.FromString(message.SerializeToString()).topic.name == "t"
"""


def test_numbers_and_names_are_rocketmqs_and_both_live_in_one_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPARE],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
