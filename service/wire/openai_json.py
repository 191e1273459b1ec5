"""The contract's messages as OpenAI's JSON, both ways.

No message is known here by name. `json.proto` holds the rules, and the contract says where a field departs
from them. What they leave open:
  - NaN and infinities have no JSON.
  - The keys of a map are printed in sorted order; every other key in the order of the contract, `type` first.
  - Raw JSON is printed as it is, on one line. It is read without its white space, but with its keys in their
    order and its numbers as they were written.
  - The tag of a union is printed from its member; a field `type` beside the oneof repeats it, and is filled
    in when read.
  - In an array or a map null is an error. An integer may be written `1.0`. Of repeated keys the last wins.

A typed client's message is checked before it is kept: it could say what has no JSON.

Both directions are planned when a message type is first seen, and cost no look at its descriptor after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import orjson

from service.wire import json_text
from service.wire.json_check import check_of
from service.wire.json_decoder import decoder_of
from service.wire.json_encoder import encoder_of
from service.wire.json_mismatch import Mismatch

if TYPE_CHECKING:
    from google.protobuf.message import Message

_M = TypeVar("_M", bound="Message")


def encode(message: Message) -> bytes:
    """Print a message as compact JSON, in UTF-8 and on one line.

    Raises:
        ValueError: the message has no JSON: a union without a member, an enum number without a name, NaN or
            an infinity, raw text that is not JSON. Messages of our own making never do; a caller's message is
            to be looked at by `check` first.

    """
    return orjson.dumps(encoder_of(type(message))(message))


def decode(message_class: type[_M], data: bytes) -> _M:
    """Read a message from JSON.

    What is missing stays unset: which fields a message needs is for validation to say.

    Raises:
        InvalidRequest: the text is not JSON, or too much of it (code `invalid_json`); a value is of the wrong
            type (`invalid_type`), not one of the accepted ones (`unknown_value`) or out of its type's range
            (`invalid_value`). `param` is the value's path; the message never holds the value.

    """
    decoder = decoder_of(message_class)
    value = json_text.parse(data)
    try:
        try:
            decoder(message := message_class(), value)
        except json_text.DigitsNeeded:
            decoder(message := message_class(), json_text.parse_exactly(data))
    except Mismatch as mismatch:
        raise mismatch.as_error() from None
    return message


def check(message: Message) -> None:
    """Make sure that a message which a client has made can be printed.

    Raises:
        InvalidRequest: it has no JSON, or raw text of too much; `param` is the path in JSON.

    """
    try:
        check_of(type(message))(message)
    except Mismatch as mismatch:
        raise mismatch.as_error() from None
