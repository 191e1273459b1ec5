"""The rules that a Responses event stream keeps, as a checker: feed it events, read what is wrong.

It takes events as JSON objects, so it judges any server's stream, and knows nothing of how one is made. The
rules are those that OpenAI's clients rely on:

  1. Events are numbered from 0 without gaps, and their types are OpenAI's.
  2. created comes first, then queued, in_progress or both; exactly one terminal event comes last. Items come
     behind in_progress.
  3. Items follow one another, each opened by output_item.added and closed by output_item.done, their
     output_index counting from 0. Only a response that failed or was cancelled may leave one open.
  4. Parts follow one another inside their item, each opened and closed, their content_index counting from 0.
     Every delta and done event falls inside the part, or the item, that it names.
  5. One id an item, in every event, unique in the stream.
  6. Joined deltas are the done text, the part's text, the item's, and the terminal response's; so are their
     log-probabilities.
  7. The terminal event's type, its response's status, its details and its items' statuses agree, and its
     usage adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.json_pb2 import json

Event = Mapping[str, Any]

EVENT_TYPES: Final = frozenset(
    field.GetOptions().Extensions[json].tag
    for field in ResponseStreamEvent.DESCRIPTOR.oneofs_by_name["event"].fields
)
"""The types of all of OpenAI's events."""

_TERMINAL: Final = {
    "response.completed": ("completed",),
    "response.incomplete": ("incomplete", "cancelled"),
    "response.failed": ("failed",),
}
# Of each event that opens the stream: behind which it comes, and what its response may be.
_OPENING: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "response.created": (("",), ("queued", "in_progress")),
    "response.queued": (("response.created",), ("queued",)),
    "response.in_progress": (("response.created", "response.queued"), ("in_progress",)),
}
# Deltas that fill a part: its type, and the key of its text.
_PART_TEXTS: Final = {
    "output_text": ("output_text", "text"),
    "reasoning_text": ("reasoning_text", "text"),
    "refusal": ("refusal", "refusal"),
}
# Deltas that fill an item itself: the item's type, and the key of its text.
_ITEM_TEXTS: Final = {
    "function_call_arguments": ("function_call", "arguments"),
    "custom_tool_call_input": ("custom_tool_call", "input"),
}
# Statuses of the items that a model writes; OpenAI's reasoning items have none at times. Hosted tools have
# statuses of their own.
_OPEN_STATUSES: Final[Mapping[object, tuple[str | None, ...]]] = {
    "message": ("in_progress",),
    "reasoning": ("in_progress", None),
    "function_call": ("in_progress",),
    "custom_tool_call": ("in_progress",),
}
_DONE_STATUSES: Final[Mapping[object, tuple[str | None, ...]]] = {
    "message": ("completed", "incomplete"),
    "reasoning": ("completed", "incomplete", None),
    "function_call": ("completed", "incomplete"),
    "custom_tool_call": ("completed", "incomplete"),
}


@dataclass
class _Open:
    """An item or a part between its added and its done event."""

    id: str
    type: str
    deltas: list[str] = field(default_factory=list)
    done: str | None = None
    logprobs: list[object] = field(default_factory=list)


class StreamChecker:
    """Checks one stream, event by event.

    Attributes:
        problems: what is wrong so far, a sentence each, with the number of the event.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._count = 0
        self._item: _Open | None = None
        self._part: _Open | None = None
        self._items: list[Mapping[str, Any]] = []
        self._parts: list[Mapping[str, Any]] = []
        self._ids: set[str] = set()
        self._opening = ""
        self._terminal = ""
        self._handlers = self._handlers_by_type()

    def feed(self, event: Event) -> None:
        """Take the next event."""
        try:
            self._feed(event)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            self._problem(f"{event.get('type')} is malformed: {error!r}")
        self._count += 1

    def _feed(self, event: Event) -> None:
        type_ = event.get("type")
        if event.get("sequence_number") != self._count:
            self._problem(f"sequence_number is {event.get('sequence_number')!r}, not {self._count}")
        if self._terminal:
            self._problem(f"{type_} comes after {self._terminal}")
        if (self._count == 0) != (type_ == "response.created"):
            self._problem(
                f"event {self._count} is {type_}: response.created is the first event, and only that"
            )
        if not isinstance(type_, str):
            self._problem("type is missing")
        elif type_ in _OPENING:
            self._check_opening(type_, event)
        elif type_ in _TERMINAL:
            if self._opening not in ("response.queued", "response.in_progress"):
                self._problem(f"{type_} comes before response.queued and response.in_progress")
            self._terminal = type_
            self._check_terminal(event)
        else:
            if self._opening != "response.in_progress" and type_ != "error":
                self._problem(f"{type_} comes before response.in_progress")
            handler = self._handlers.get(type_)
            if handler is not None:
                handler(event)
            elif type_ not in EVENT_TYPES:
                self._problem(f"{type_!r} is not one of OpenAI's event types")
            elif "item_id" in event:
                self._named_item(event["item_id"], event)

    def finish(self) -> list[str]:
        """The stream is over; return all problems."""
        if not self._terminal:
            self.problems.append("the stream ends without a terminal event")
        return self.problems

    def _handlers_by_type(self) -> Mapping[str, Callable[[Event], None]]:
        handlers: dict[str, Callable[[Event], None]] = {
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.content_part.added": self._part_added,
            "response.content_part.done": self._part_done,
        }
        for name in (*_PART_TEXTS, *_ITEM_TEXTS):
            handlers[f"response.{name}.delta"] = self._delta
            handlers[f"response.{name}.done"] = self._text_done
        return handlers

    def _problem(self, text: str) -> None:
        self.problems.append(f"event {self._count}: {text}")

    def _expect(self, what: str, got: object, wanted: object) -> None:
        if got != wanted:
            self._problem(f"{what} is {_short(got)}, not {_short(wanted)}")

    # The response.

    def _check_opening(self, type_: str, event: Event) -> None:
        behind, statuses = _OPENING[type_]
        if self._opening not in behind:
            self._problem(f"{type_} comes after {self._opening or 'nothing'}")
        self._opening = type_
        response = event.get("response") or {}
        if response.get("status") not in statuses:
            self._problem(f"{type_} has status {response.get('status')!r}")
        self._expect("response.output", response.get("output"), self._items)

    def _check_terminal(self, event: Event) -> None:
        response = event.get("response") or {}
        status = response.get("status")
        if status not in _TERMINAL[event["type"]]:
            self._problem(f"{event['type']} has status {status!r}")
        if self._item is not None and status not in ("failed", "cancelled"):
            self._problem(f"item {self._item.id} is still open")
        self._expect("the terminal output", response.get("output"), self._items)
        self._expect("error is set", response.get("error") is not None, status == "failed")
        self._expect(
            "incomplete_details is set",
            response.get("incomplete_details") is not None,
            status == "incomplete",
        )
        cut = [i for i, item in enumerate(self._items) if item.get("status") == "incomplete"]
        if cut and (status == "completed" or cut != [len(self._items) - 1]):
            self._problem(f"items {cut} are incomplete in a response with status {status}")
        usage = response.get("usage")
        if usage is not None:
            self._expect(
                "total_tokens", usage["total_tokens"], usage["input_tokens"] + usage["output_tokens"]
            )
        elif status == "completed":
            self._problem("usage is missing")

    # Items.

    def _item_added(self, event: Event) -> None:
        if self._item is not None:
            self._problem(f"item {self._item.id} is still open")
        item = event["item"]
        self._expect("output_index", event.get("output_index"), len(self._items))
        if item.get("status") not in _OPEN_STATUSES.get(item.get("type"), (item.get("status"),)):
            self._problem(f"item.status is {item.get('status')!r}, not 'in_progress'")
        if item.get("content") or item.get("arguments") or item.get("input") or item.get("summary"):
            self._problem("the item is not empty when it is added")
        if item.get("id") in self._ids or not item.get("id"):
            self._problem(f"the item's id {item.get('id')!r} is missing or used before")
        self._ids.add(item.get("id"))
        self._item, self._parts = _Open(item.get("id", ""), item.get("type", "")), []

    def _item_done(self, event: Event) -> None:
        opened = self._named_item(event["item"].get("id"), event)
        if opened is None:
            return
        item = event["item"]
        if self._part is not None:
            self._problem("a part is still open")
            self._part = None
        self._expect("item.type", item.get("type"), opened.type)
        if item.get("status") not in _DONE_STATUSES.get(item.get("type"), (item.get("status"),)):
            self._problem(f"item.status is {item.get('status')!r}, not 'completed' or 'incomplete'")
        for type_, key in _ITEM_TEXTS.values():
            if item.get("type") == type_:
                self._expect(f"item.{key}", item.get(key), opened.done)
                if not opened.deltas and item.get(key) and item.get("status") == "completed":
                    self._problem(f"no delta came before item.{key}")
        if item.get("type") in ("message", "reasoning"):
            self._expect("item.content", item.get("content", []), self._parts)
        self._items.append(item)
        self._item = None

    def _named_item(self, id_: object, event: Event) -> _Open | None:
        """The open item, if the event names it by id and position."""
        if self._item is None:
            self._problem(f"{event['type']} while no item is open")
            return None
        self._expect("the item's id", id_, self._item.id)
        self._expect("output_index", event.get("output_index"), len(self._items))
        return self._item

    # Parts and texts.

    def _part_added(self, event: Event) -> None:
        if self._named_item(event.get("item_id"), event) is None:
            return
        if self._part is not None:
            self._problem("the part before is still open")
        self._expect("content_index", event.get("content_index"), len(self._parts))
        self._part = _Open("", event["part"].get("type", ""))

    def _part_done(self, event: Event) -> None:
        if self._named_item(event.get("item_id"), event) is None:
            return
        if self._part is None:
            self._problem("no part is open")
            return
        part = event["part"]
        self._expect("content_index", event.get("content_index"), len(self._parts))
        self._expect("part.type", part.get("type"), self._part.type)
        _, key = _PART_TEXTS.get(self._part.type, ("", "text"))
        self._expect(f"part.{key}", part.get(key), self._part.done)
        self._expect("part.logprobs", part.get("logprobs") or [], self._part.logprobs)
        self._parts.append(part)
        self._part = None

    def _holder(self, event: Event) -> tuple[_Open | None, str]:
        """What a delta or done event fills, and the key of the whole text in the done event."""
        item = self._named_item(event.get("item_id"), event)
        name = event["type"].removeprefix("response.").rpartition(".")[0]
        if name in _ITEM_TEXTS:
            type_, key = _ITEM_TEXTS[name]
            holder = item
        else:
            type_, key = _PART_TEXTS[name]
            holder = self._part
            self._expect("content_index", event.get("content_index"), len(self._parts))
        if holder is None:
            self._problem(f"{event['type']} while nothing that it fills is open")
            return None, key
        self._expect("what it fills", holder.type, type_)
        if holder.done is not None:
            self._problem(f"{event['type']} after its done event")
        return holder, key

    def _delta(self, event: Event) -> None:
        holder, _ = self._holder(event)
        delta = event.get("delta")
        if not isinstance(delta, str) or not delta:
            self._problem(f"delta is {_short(delta)}, not a text")
        elif holder is not None:
            holder.deltas.append(delta)
            holder.logprobs += event.get("logprobs") or []

    def _text_done(self, event: Event) -> None:
        holder, key = self._holder(event)
        if holder is not None:
            holder.done = event.get(key)
            self._expect(key, holder.done, "".join(holder.deltas))
            self._expect("logprobs", event.get("logprobs") or [], holder.logprobs)


def check_stream(events: Iterable[Event]) -> list[str]:
    """Return what is wrong with a whole stream; nothing when it is right."""
    checker = StreamChecker()
    for event in events:
        checker.feed(event)
    return checker.finish()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "..."
