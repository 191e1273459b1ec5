"""A contract that has something of every rule of json.proto, and how to compile one."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

PROTO = Path(__file__).parents[2] / "proto"

CONTRACT = """
syntax = "proto3";
package openresponses.v1.test;
import "openresponses/v1/json.proto";

message Plain {
  string text = 1; bool flag = 2; int32 count = 3; int64 big = 4; double ratio = 5; uint32 size = 6;
}
message Maybe { optional string text = 1; optional bool flag = 2; optional int32 count = 3; Plain plain = 4; }
message Null {
  optional string text = 1 [(json).null_when_unset = true];
  Plain plain = 2 [(json).null_when_unset = true];
  Color color = 3 [(json).null_when_unset = true];
  repeated string words = 4 [(json).null_when_unset = true];
  map<string, string> labels = 5 [(json).null_when_unset = true];
}
message Many { repeated string words = 1; repeated Maybe items = 2; map<string, string> labels = 3; }
message ManyOmitted {
  repeated string words = 1 [(json).omit_when_empty = true];
  map<string, Value> values = 2 [(json).omit_when_empty = true];
}
message Raw {
  optional string schema = 1 [(json).raw = true];
  repeated string documents = 2 [(json).raw = true, (json).omit_when_empty = true];
}
message RawAlways { string arguments = 1 [(json).raw = true]; }
enum Color { COLOR_UNSPECIFIED = 0; COLOR_RED = 1; COLOR_DARK_BLUE = 2; }
message Paint { Color color = 1; Color trim = 2; }
message Empty {}
message Typed { option (json_message).type = "typed"; string text = 1; }

message Event {
  option (json_message).union = JSON_UNION_TAGGED;
  string type = 1;
  int32 number = 2;
  oneof event {
    Delta delta = 3 [(json).tag = "text.delta"];
    Empty nothing = 4;
    Typed typed = 5;
  }
}
message Delta { string delta = 1; }
message Item {
  option (json_message).union = JSON_UNION_TAGGED;
  oneof item {
    Speech message = 1;
    Tree tree = 2;
    UnknownVariant unknown = 100;
  }
}
message Speech { Input content = 1; }
message Tree { repeated Item children = 1; }
message Input {
  option (json_message).union = JSON_UNION_BARE;
  oneof input { string text = 1; Items items = 2; Item item = 3; double number = 4; bool flag = 5; }
}
message Items { option (json_message).list = true; repeated Item items = 1; }
message Value {
  option (json_message).union = JSON_UNION_BARE;
  oneof value { Color color = 1; int32 count = 2; }
}
message Request { repeated Item items = 1; Paint paint = 2; map<string, Plain> plains = 3; }
"""


def load(contract: str, folder: Path) -> Callable[[str], type[Message]]:
    """Compile a contract; gives its message classes by name."""
    (folder / "test.proto").write_text(contract)
    image = folder / "image.binpb"
    with resources.as_file(resources.files("grpc_tools") / "_proto") as well_known:
        paths = [f"-I{path}" for path in (folder, PROTO, well_known)]
        assert protoc.main(["protoc", *paths, "--include_imports", f"-o{image}", "test.proto"]) == 0
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(image.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return lambda name: message_factory.GetMessageClass(
        pool.FindMessageTypeByName(f"openresponses.v1.test.{name}")
    )
