"""Protobuf files as protoc would compile them."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.text_format import Parse

from rocketpipe.pipeline.formats.protobuf_schema import pool_of

COMMON = """
    name: "common.proto" package: "shop" syntax: "proto3"
    message_type { name: "Place" field { name: "city" number: 1 type: TYPE_STRING } }
"""
ORDERS = """
    name: "orders.proto" package: "shop" syntax: "proto3"
    dependency: "common.proto"
    dependency: "google/protobuf/timestamp.proto"
    dependency: "google/protobuf/wrappers.proto"
    dependency: "google/protobuf/struct.proto"
    enum_type { name: "Color" value { name: "RED" number: 0 } value { name: "BLUE" number: 1 } }
    message_type { name: "Refund" field { name: "cents" number: 1 type: TYPE_INT32 } }
    message_type {
      name: "Order"
      field { name: "cents" number: 1 type: TYPE_INT32 }
      field { name: "big" number: 2 type: TYPE_UINT64 }
      field { name: "small" number: 3 type: TYPE_UINT32 }
      field { name: "color" number: 4 type: TYPE_ENUM type_name: ".shop.Color" }
      field { name: "place" number: 5 type: TYPE_MESSAGE type_name: ".shop.Place" }
      field { name: "stops" number: 6 type: TYPE_MESSAGE label: LABEL_REPEATED
              type_name: ".shop.Place" }
      field { name: "counts" number: 7 type: TYPE_MESSAGE label: LABEL_REPEATED
              type_name: ".shop.Order.CountsEntry" }
      field { name: "at" number: 8 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" }
      field { name: "note" number: 9 type: TYPE_MESSAGE type_name: ".google.protobuf.StringValue" }
      field { name: "card" number: 10 type: TYPE_STRING oneof_index: 0 }
      field { name: "cash" number: 11 type: TYPE_BOOL oneof_index: 0 }
      field { name: "raw" number: 12 type: TYPE_BYTES }
      field { name: "more" number: 13 type: TYPE_MESSAGE type_name: ".google.protobuf.Struct" }
      field { name: "ratios" number: 14 type: TYPE_DOUBLE label: LABEL_REPEATED }
      oneof_decl { name: "paid" }
      nested_type {
        name: "CountsEntry" options { map_entry: true }
        field { name: "key" number: 1 type: TYPE_INT32 }
        field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".shop.Place" }
      }
      nested_type { name: "Line" field { name: "x" number: 1 type: TYPE_INT32 } }
    }
"""
NODES = """
    name: "nodes.proto" syntax: "proto3"
    message_type { name: "Empty" }
    message_type {
      name: "Node"
      field { name: "next" number: 1 type: TYPE_MESSAGE type_name: ".Node" }
    }
"""


def file(text: str) -> Any:
    found = Parse(text, FileDescriptorProto())
    for message in found.message_type:
        for field in [
            *message.field,
            *(each for inner in message.nested_type for each in inner.field),
        ]:
            field.label = field.label if field.HasField("label") else field.LABEL_OPTIONAL
    return found


def descriptor_set(*texts: str) -> bytes:
    return FileDescriptorSet(file=[file(each) for each in texts]).SerializeToString()


def message(name: str, *texts: str) -> Any:
    pool: DescriptorPool = pool_of([file(each) for each in texts])
    return GetMessageClass(pool.FindMessageTypeByName(name))


def serialized(text: str) -> str:
    """As a registry gives it."""
    return base64.b64encode(file(text).SerializeToString()).decode()
