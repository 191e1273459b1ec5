"""The event builder: a turn's segments become numbered events, items, usage and one terminal event. Sans-IO.

It knows nothing of tokens, engines or transports. Segments come in whatever grouping the flushes give; the
same segments give the same items and ids in every grouping, since ids are made from the response's own id and
the item's position. The order of events is the one of `Event order` in OpenAI's streams:

    start()                     created, and in_progress; or queued, where the response waits for its turn
    begin()                     in_progress, where it was queued
    apply()                     per message: output_item.added, content_part.added, deltas, done events,
                                inner to outer
    complete(), cut(), fail()   completed, incomplete, failed; each carries the whole response

They gather in an outbox until `take()`. Sequence numbers are given out in one place, when an event enters it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import assert_never

from openresponses.v1.content_pb2 import Logprob
from openresponses.v1.event_pb2 import (
    ResponseCompletedEvent,
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseCreatedEvent,
    ResponseCustomToolCallInputDeltaEvent,
    ResponseCustomToolCallInputDoneEvent,
    ResponseFailedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionCallArgumentsDoneEvent,
    ResponseIncompleteEvent,
    ResponseInProgressEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseQueuedEvent,
    ResponseReasoningTextDeltaEvent,
    ResponseReasoningTextDoneEvent,
    ResponseStreamEvent,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
)
from openresponses.v1.response_pb2 import IncompleteDetails, Response, ResponseError, Usage
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

_Delta = (
    ResponseTextDeltaEvent
    | ResponseReasoningTextDeltaEvent
    | ResponseFunctionCallArgumentsDeltaEvent
    | ResponseCustomToolCallInputDeltaEvent
)


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
        self._emit("response.created", created=ResponseCreatedEvent(response=self.response))
        if self.response.status == RESPONSE_STATUS_QUEUED:
            self._emit("response.queued", queued=ResponseQueuedEvent(response=self.response))
        else:
            self._emit("response.in_progress", in_progress=ResponseInProgressEvent(response=self.response))

    def begin(self) -> None:
        """Say that the model is at work, where that has not been said."""
        if self.response.status == RESPONSE_STATUS_QUEUED:
            self.response.status = RESPONSE_STATUS_IN_PROGRESS
            self._emit("response.in_progress", in_progress=ResponseInProgressEvent(response=self.response))

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
        response = self._end(RESPONSE_STATUS_COMPLETED, usage)
        response.completed_at = completed_at
        self._emit("response.completed", completed=ResponseCompletedEvent(response=response))

    def cut(self, usage: Usage, reason: str = "max_output_tokens") -> None:
        """End a response that a limit cut short. `reason` is one of OpenAI's incomplete reasons."""
        response = self._end(RESPONSE_STATUS_INCOMPLETE, usage)
        response.incomplete_details.CopyFrom(IncompleteDetails(reason=reason))
        self._emit("response.incomplete", incomplete=ResponseIncompleteEvent(response=response))

    def fail(self, usage: Usage, error: ResponseError) -> None:
        """End a response that broke. The open item gets no done events and is not in the output."""
        response = self._end(RESPONSE_STATUS_FAILED, usage)
        response.error.CopyFrom(error)
        self._emit("response.failed", failed=ResponseFailedEvent(response=response))

    def _end(self, status: ResponseStatus.ValueType, usage: Usage) -> Response:
        self.begin()
        self.response.status = status
        self.response.usage.CopyFrom(usage)
        return self.response

    def _emit(self, type_: str, **event: object) -> None:
        self._events.append(
            ResponseStreamEvent(type=type_, sequence_number=self._number, **event)  # type: ignore[arg-type]
        )
        self._number += 1

    def _event(self, type_: str) -> ResponseStreamEvent:
        """Emit an event to be filled in place: half the cost of handing a message over, which copies it."""
        event = ResponseStreamEvent(type=type_, sequence_number=self._number)
        self._events.append(event)
        self._number += 1
        return event

    def _fill(self, delta: _Delta, text: str) -> None:
        delta.item_id = self._item.id
        delta.output_index = self._item.index
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
        self._emit(
            "response.output_item.added",
            output_item_added=ResponseOutputItemAddedEvent(
                output_index=item.index, item=item.snapshot(ITEM_STATUS_IN_PROGRESS, None)
            ),
        )
        if part := item.part(""):
            self._emit(
                "response.content_part.added",
                content_part_added=ResponseContentPartAddedEvent(
                    item_id=item.id, output_index=item.index, part=part
                ),
            )

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
        match self._item.kind:
            case Kind.ANSWER | Kind.PREAMBLE:
                self._emit(
                    "response.output_text.done",
                    output_text_done=ResponseTextDoneEvent(
                        item_id=item.id, output_index=item.index, text=text, logprobs=item.logprobs
                    ),
                )
            case Kind.REASONING if self._item.hidden:
                pass
            case Kind.REASONING:
                self._emit(
                    "response.reasoning_text.done",
                    reasoning_text_done=ResponseReasoningTextDoneEvent(
                        item_id=item.id, output_index=item.index, text=text
                    ),
                )
            case Kind.FUNCTION_CALL:
                self._emit(
                    "response.function_call_arguments.done",
                    function_call_arguments_done=ResponseFunctionCallArgumentsDoneEvent(
                        item_id=item.id, output_index=item.index, arguments=text
                    ),
                )
            case Kind.CUSTOM_CALL:
                self._emit(
                    "response.custom_tool_call_input.done",
                    custom_tool_call_input_done=ResponseCustomToolCallInputDoneEvent(
                        item_id=item.id, output_index=item.index, input=text
                    ),
                )
            case _:
                assert_never(self._item.kind)
        if part := item.part(text):
            self._emit(
                "response.content_part.done",
                content_part_done=ResponseContentPartDoneEvent(
                    item_id=item.id, output_index=item.index, part=part
                ),
            )
        done = item.snapshot(ITEM_STATUS_COMPLETED if complete else ITEM_STATUS_INCOMPLETE, text, self._seal)
        self.response.output.append(done)
        self._emit(
            "response.output_item.done",
            output_item_done=ResponseOutputItemDoneEvent(output_index=item.index, item=done),
        )
