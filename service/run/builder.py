"""The event builder: a turn's segments become numbered events, items, usage and one terminal event. Sans-IO.

It knows nothing of tokens, engines or transports. Segments come in whatever grouping the flushes give; the
same segments give the same items and ids in every grouping, since ids are made from the response's own id and
the item's position. Events come in the order of OpenAI's streams:

    start()                     created, and in_progress; or queued, where the response waits for its turn
    begin()                     in_progress, where it was queued
    apply()                     per message: output_item.added, content_part.added, deltas, done events,
                                inner to outer
    complete(), cut(), fail()   completed, incomplete, failed; each carries the whole response

They gather in an outbox until `take()`. Sequence numbers are given out in one place, when an event enters it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, assert_never

from openresponses.v1.content_pb2 import Logprob
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.response_pb2 import Response, ResponseError, Usage
from openresponses.v1.status_pb2 import (
    ITEM_STATUS_COMPLETED,
    ITEM_STATUS_IN_PROGRESS,
    ITEM_STATUS_INCOMPLETE,
    RESPONSE_STATUS_COMPLETED,
    RESPONSE_STATUS_FAILED,
    RESPONSE_STATUS_IN_PROGRESS,
    RESPONSE_STATUS_INCOMPLETE,
    RESPONSE_STATUS_QUEUED,
    ResponseStatus,
)

from service.dialect.base import Kind, MessageEnd, MessageStart, MessageText, Segment
from service.run.open_item import OpenItem


class _OfItem(Protocol):
    """What the events of an item have in common."""

    item_id: str
    output_index: int


class _Delta(_OfItem, Protocol):
    delta: str


class ResponseBuilder:
    """Builds the events of one response.

    Attributes:
        response: the response as it stands; lifecycle events carry copies of it.

    """

    def __init__(
        self, response: Response, *, seal: Callable[[str], str] | None = None, show_reasoning: bool = True
    ) -> None:
        """`response`: in progress or queued, without output, its `id` of the form `resp_<unique>`.

        `seal` makes the `encrypted_content` of reasoning items, None for none; without `show_reasoning` they
        have no text beside it.
        """
        self.response = response
        self._seal = seal
        self._show_reasoning = show_reasoning
        self._unique = response.id.removeprefix("resp_")
        self._number = 0
        self._events: list[ResponseStreamEvent] = []
        self._item = self._new_item(MessageStart(Kind.ANSWER))

    def take(self) -> list[ResponseStreamEvent]:
        """Return the events since the last call, in order."""
        events, self._events = self._events, []
        return events

    def start(self) -> None:
        """Open the stream."""
        self._event("response.created").created.response.CopyFrom(self.response)
        if self.response.status == RESPONSE_STATUS_QUEUED:
            self._event("response.queued").queued.response.CopyFrom(self.response)
        else:
            self._event("response.in_progress").in_progress.response.CopyFrom(self.response)

    def begin(self) -> None:
        """Say that the model is at work, where that has not been said."""
        if self.response.status == RESPONSE_STATUS_QUEUED:
            self.response.status = RESPONSE_STATUS_IN_PROGRESS
            self._event("response.in_progress").in_progress.response.CopyFrom(self.response)

    def apply(self, segments: Iterable[Segment]) -> None:
        """Take the next segments of the turn."""
        for segment in segments:
            match segment:
                case MessageText(text, logprobs):
                    self._item.texts.append(text)
                    self._item.logprobs += logprobs
                    self._delta(text, logprobs)
                case MessageStart():
                    self._open(self._new_item(segment))
                case MessageEnd(complete):
                    self._close(complete=complete)
                case _:
                    assert_never(segment)

    def complete(self, usage: Usage, completed_at: float) -> None:
        """End a response that the model finished. `completed_at` is Unix time in seconds."""
        self._end(RESPONSE_STATUS_COMPLETED, usage)
        self.response.completed_at = completed_at
        self._event("response.completed").completed.response.CopyFrom(self.response)

    def cut(self, usage: Usage, reason: str = "max_output_tokens") -> None:
        """End a response that a limit cut short. `reason` is one of OpenAI's incomplete reasons."""
        self._end(RESPONSE_STATUS_INCOMPLETE, usage)
        self.response.incomplete_details.reason = reason
        self._event("response.incomplete").incomplete.response.CopyFrom(self.response)

    def fail(self, usage: Usage, error: ResponseError) -> None:
        """End a response that broke. The open item gets no done events and is not in the output."""
        self._end(RESPONSE_STATUS_FAILED, usage)
        self.response.error.CopyFrom(error)
        self._event("response.failed").failed.response.CopyFrom(self.response)

    def _end(self, status: ResponseStatus.ValueType, usage: Usage) -> None:
        self.begin()
        self.response.status = status
        self.response.usage.CopyFrom(usage)

    def _event(self, type_: str) -> ResponseStreamEvent:
        """Emit an event, to be filled in place: handing messages over would copy them twice."""
        event = ResponseStreamEvent(type=type_, sequence_number=self._number)
        self._events.append(event)
        self._number += 1
        return event

    def _address(self, event: _OfItem) -> None:
        event.item_id = self._item.id
        event.output_index = self._item.index

    def _fill(self, delta: _Delta, text: str) -> None:
        self._address(delta)
        delta.delta = text

    # One item: opened, filled, closed.

    def _new_item(self, start: MessageStart) -> OpenItem:
        return OpenItem(
            start.kind,
            start.name,
            start.namespace,
            self._unique,
            len(self.response.output),
            hides_reasoning=not self._show_reasoning,
        )

    def _open(self, item: OpenItem) -> None:
        self._item = item
        added = self._event("response.output_item.added").output_item_added
        added.output_index = item.index
        item.write(added.item, ITEM_STATUS_IN_PROGRESS, None)
        if item.has_part:
            part_added = self._event("response.content_part.added").content_part_added
            self._address(part_added)
            item.write_part(part_added.part, "")

    def _delta(self, text: str, logprobs: Sequence[Logprob] = ()) -> None:
        match self._item.kind:
            case Kind.ANSWER | Kind.PREAMBLE:
                answer = self._event("response.output_text.delta").output_text_delta
                self._fill(answer, text)
                if logprobs:
                    answer.logprobs.extend(logprobs)
            case Kind.REASONING if self._item.hidden:
                pass
            case Kind.REASONING:
                self._fill(self._event("response.reasoning_text.delta").reasoning_text_delta, text)
            case Kind.FUNCTION_CALL:
                event = self._event("response.function_call_arguments.delta")
                self._fill(event.function_call_arguments_delta, text)
            case Kind.CUSTOM_CALL:
                event = self._event("response.custom_tool_call_input.delta")
                self._fill(event.custom_tool_call_input_delta, text)
            case _:
                assert_never(self._item.kind)

    def _close(self, *, complete: bool) -> None:
        item = self._item
        text = "".join(item.texts)
        if item.kind is Kind.FUNCTION_CALL and complete and not text.strip():
            # A call without arguments: clients parse them as JSON, and wait for at least one delta.
            text += "{}"
            self._delta("{}")
        self._done(text)
        if item.has_part:
            part_done = self._event("response.content_part.done").content_part_done
            self._address(part_done)
            item.write_part(part_done.part, text)
        done = self._event("response.output_item.done").output_item_done
        done.output_index = item.index
        item.write(done.item, ITEM_STATUS_COMPLETED if complete else ITEM_STATUS_INCOMPLETE, text, self._seal)
        self.response.output.add().CopyFrom(done.item)

    def _done(self, text: str) -> None:
        match self._item.kind:
            case Kind.ANSWER | Kind.PREAMBLE:
                answer = self._event("response.output_text.done").output_text_done
                self._address(answer)
                answer.text = text
                if self._item.logprobs:
                    answer.logprobs.extend(self._item.logprobs)
            case Kind.REASONING if self._item.hidden:
                pass
            case Kind.REASONING:
                reasoning = self._event("response.reasoning_text.done").reasoning_text_done
                self._address(reasoning)
                reasoning.text = text
            case Kind.FUNCTION_CALL:
                call = self._event("response.function_call_arguments.done").function_call_arguments_done
                self._address(call)
                call.arguments = text
            case Kind.CUSTOM_CALL:
                custom = self._event("response.custom_tool_call_input.done").custom_tool_call_input_done
                self._address(custom)
                custom.input = text
            case _:
                assert_never(self._item.kind)
