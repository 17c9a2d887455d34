"""Makes the classes of RocketMQ's gRPC messages from their .proto file (`make proto`).

python -m tools.packaging.proto

protoc's own modules put what they describe into protobuf's default pool, which is one for the whole
process: there, RocketMQ's official client and ours would claim the same names, and whoever came
second would fail. So the description is kept as bytes in a module that has a pool of its own; what
protoc says of the types goes beside it, for type checkers.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOM = Path(__file__).parents[2] / "src" / "rocketpipe" / "proxy" / "v2"
PROTO = "messaging.proto"
WIDTH = 64

MODULE = '''\
# Printed by tools/packaging/proto.py from messaging.proto: change it there, then `make proto`.
"""The messages and enums of RocketMQ's gRPC protocol, in a pool of their own."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper

_DESCRIBED = (
{described})

_pool = descriptor_pool.DescriptorPool()
for _file in descriptor_pb2.FileDescriptorSet.FromString(_DESCRIBED).file:
    _pool.Add(_file)
DESCRIPTOR = _pool.FindFileByName("messaging.proto")
for _name, _message in DESCRIPTOR.message_types_by_name.items():
    globals()[_name] = message_factory.GetMessageClass(_message)
for _name, _enum in DESCRIPTOR.enum_types_by_name.items():
    globals()[_name] = enum_type_wrapper.EnumTypeWrapper(_enum)
    globals().update({{_value.name: _value.number for _value in _enum.values}})
'''


def main() -> int:
    with tempfile.TemporaryDirectory() as made:
        described = Path(made) / "described"
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOM}"),
                *("--include_imports", f"--descriptor_set_out={described}"),
                *(f"--pyi_out={ROOM}", PROTO),
            ],
            check=True,
        )
        data = described.read_bytes()
    lines = (data[at : at + WIDTH] for at in range(0, len(data), WIDTH))
    written = "".join(f"    {line!r}\n" for line in lines)
    (ROOM / "messaging_pb2.py").write_text(MODULE.format(described=written))
    return 0


if __name__ == "__main__":
    sys.exit(main())
