"""Items as they go round: output that becomes input again, and input that is kept. Sans-IO."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from openresponses.v1.content_pb2 import (
    InputContent,
    InputContentPart,
    InputContentPartList,
    InputText,
    OutputText,
)
from openresponses.v1.item_pb2 import ROLE_ASSISTANT, ROLE_USER, Input, InputItem, InputMessage, OutputItem
from openresponses.v1.status_pb2 import (
    ITEM_STATUS_COMPLETED,
    ITEM_STATUS_INCOMPLETE,
    ITEM_STATUS_UNSPECIFIED,
)

from service.errors import InvalidRequest

_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
ID_PREFIXES: Final = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "compaction": "cmp",
}
# Where OpenAI's clients count on a status.
_WITH_STATUS: Final = frozenset(
    {"message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"}
)


def as_input_item(item: OutputItem) -> InputItem:
    """Return an item of a response's output as the input of a later request."""
    if not item.HasField("message"):
        # The two unions share their members and numbers, but for messages.
        return InputItem.FromString(item.SerializeToString())
    said = item.message
    parts = [
        InputContentPart(refusal=part.refusal)
        if part.HasField("refusal")
        else InputContentPart(output_text=part.output_text)
        for part in said.content
    ]
    message = InputMessage(
        id=said.id,
        role=said.role,
        status=said.status,
        content=InputContent(parts=InputContentPartList(parts=parts)),
    )
    if said.HasField("phase"):
        message.phase = said.phase
    return InputItem(message=message)


def as_later_input(output: Iterable[OutputItem]) -> Iterator[InputItem]:
    """Yield a response's output as the input of a later request; a call that was cut off is left out.

    Nobody could answer it.
    """
    for item in output:
        member = item.WhichOneof("item")
        if member not in ("function_call", "custom_tool_call") or (
            getattr(item, member).status != ITEM_STATUS_INCOMPLETE
        ):
            yield as_input_item(item)


def as_items(source: Input) -> list[InputItem]:
    """Return an input as items: a text is a message of the user."""
    if source.WhichOneof("input") == "text":
        item = InputItem()
        item.message.role = ROLE_USER
        item.message.content.text = source.text
        return [item]
    return list(source.items.items)


def is_id(text: str) -> bool:
    """Whether a text can be the id of something that is kept."""
    return _ID.fullmatch(text) is not None


def with_ids(items: Iterable[InputItem], unique: str, path: str = "input") -> list[InputItem]:
    """Return copies of items as they are kept: as OpenAI's clients read them.

    Each has an id and a status, a message's content is a list of parts, and texts are of the kind that goes
    with who wrote them.

    `unique`: alphanumeric text that new ids are made from; `path` names the list that the items are.

    Raises:
        InvalidRequest: an id is none; `param` is its path.

    """
    return [_kept(item, f"{unique}i{i:04x}", f"{path}[{i}]") for i, item in enumerate(items)]


def check_ids(items: Iterable[InputItem], path: str = "input") -> None:
    """Check that those ids that items have can be kept. `path` and what it raises as `with_ids`."""
    for i, item in enumerate(items):
        if name := item_id(item):
            _check_id(name, f"{path}[{i}].id")


def check_unique(items: Iterable[InputItem], taken: Collection[str] = (), path: str = "input") -> None:
    """Check that no id is given twice; items may have none. `path` as `with_ids`.

    Raises:
        InvalidRequest: an id is among `taken`, or has come before; `param` is its path.

    """
    seen: set[str] = set()
    for i, item in enumerate(items):
        # OpenAI's own words, which agents look for.
        if (name := item_id(item)) and (name in taken or name in seen):
            raise InvalidRequest(
                f"Duplicate item found with id {name[:128]}. Remove duplicate items from your input and try "
                "again.",
                param=f"{path}[{i}].id",
            )
        seen.add(name)


def with_new_id(item: InputItem, unique: str) -> InputItem:
    """Return a copy of an item under another id. `unique` as `with_ids`."""
    renamed = InputItem()
    renamed.CopyFrom(item)
    _member(renamed).id = _new_id(item, unique)
    return renamed


def item_id(item: InputItem) -> str:
    """Return an item's id; the empty text where it has none."""
    return str(_member(item).id) if item.WhichOneof("item") and not item.HasField("unknown") else ""


def response_id_of(kept_item_id: str) -> str:
    """Return the id of the response that an item of ours belongs to; items' ids are made from it."""
    unique = kept_item_id.partition("_")[2]
    return f"resp_{unique[:-5] if unique[-5:-4] == 'i' else unique[:-4]}"


def _content(item: InputItem) -> InputContent:
    match item.WhichOneof("item"):
        case "function_call_output":
            return item.function_call_output.output
        case "custom_tool_call_output":
            return item.custom_tool_call_output.output
        case _:
            return item.message.content


def _member(item: InputItem) -> Any:
    return getattr(item, item.WhichOneof("item") or "")


def _new_id(item: InputItem, unique: str) -> str:
    return f"{ID_PREFIXES.get(item.WhichOneof('item') or '', 'item')}_{unique}"


def _kept(item: InputItem, unique: str, path: str) -> InputItem:
    kept = InputItem()
    kept.CopyFrom(item)
    if not item.WhichOneof("item") or item.HasField("unknown"):
        # Refused where the prompt is rendered.
        return kept
    member = _member(kept)
    if not member.id:
        member.id = _new_id(item, unique)
    else:
        _check_id(member.id, f"{path}.id")
    if item.WhichOneof("item") in _WITH_STATUS and member.status == ITEM_STATUS_UNSPECIFIED:
        member.status = ITEM_STATUS_COMPLETED
    is_said = kept.HasField("message") and kept.message.role == ROLE_ASSISTANT
    content = _content(kept)
    if kept.HasField("message") and content.WhichOneof("content") == "text":
        content.parts.parts.append(_text_part(content.text, is_said=is_said))
    for part in content.parts.parts:
        _fit(part, is_said=is_said)
    return kept


def _check_id(name: str, path: str) -> None:
    if not is_id(name):
        raise InvalidRequest(f"{path} must be 1 to 128 printable ASCII characters.", param=path)


def _text_part(text: str, *, is_said: bool) -> InputContentPart:
    return (
        InputContentPart(output_text=OutputText(text=text))
        if is_said
        else InputContentPart(input_text=InputText(text=text))
    )


def _fit(part: InputContentPart, *, is_said: bool) -> None:
    """Make a text one of the kinds that OpenAI has for who wrote it: what a model said, or what it was told.

    Agents mix them up, and OpenAI's clients have no types for what comes of it.
    """
    if is_said and part.HasField("input_text"):
        part.CopyFrom(_text_part(part.input_text.text, is_said=True))
    elif not is_said and part.HasField("output_text"):
        part.CopyFrom(_text_part(part.output_text.text, is_said=False))
    elif not is_said and part.HasField("refusal"):
        part.CopyFrom(_text_part(part.refusal.refusal, is_said=False))
