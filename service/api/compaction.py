"""Compaction: a long conversation becomes a summary that only the server can read, to go on from.

The model itself writes the summary, in a response of its own that is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from openresponses.v1.content_pb2 import InputContent
from openresponses.v1.item_pb2 import ROLE_USER, Compaction, InputItem, InputItemList, InputMessage
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.status_pb2 import RESPONSE_STATUS_COMPLETED
from openresponses.v1.stored_pb2 import CompactedResponse
from openresponses.v1.tool_pb2 import TOOL_CHOICE_MODE_NONE

from service.api.context import ContextReader
from service.api.responses import Responses
from service.api.sealing import Sealer
from service.errors import EngineFailed, InvalidRequest
from service.items import as_items, with_ids
from service.long_work import in_thread_if_long, request_bytes
from service.run.preparation import Preparation

_REQUEST: Final = (
    "Summarize the conversation so far for yourself, so that you can go on from the summary alone: the "
    "user's goals and constraints, what has been decided and done, the facts and names that matter, and what "
    "is left to do."
)


class Compactor:
    """Makes conversations compact. `new_id` gives unique alphanumeric texts, `clock` Unix time in seconds."""

    def __init__(
        self,
        responses: Responses,
        context: ContextReader,
        preparation: Preparation,
        sealer: Sealer,
        new_id: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._responses = responses
        self._context = context
        self._preparation = preparation
        self._sealer = sealer
        self._new_id = new_id
        self._clock = clock

    async def compact(self, request: CreateResponseRequest, owner: str) -> CompactedResponse:
        """Return the user's messages of the whole conversation, and its summary.

        Parameters act as on the response that writes the summary: see `_asking`.

        Raises:
            EngineFailed: the model wrote no summary, or not to its end.
            InvalidRequest: the caller's max_output_tokens left no room for it.
            ServiceError: the request is refused.

        """
        _check(request)
        unique = self._new_id()
        async with self._preparation:
            history = await self._context.history(request, owner)
            await self._context.resolve_references(request, owner)
            size = request_bytes(request)
            given = await in_thread_if_long(size, lambda: with_ids(_given(request), unique))
            asking = await in_thread_if_long(size, _asking, request)
        spoken = [item for item in (*history, *given) if _is_users(item)]
        del history, given
        response = await self._responses.create(asking, owner, own_items=1)
        if response.status != RESPONSE_STATUS_COMPLETED:
            if 0 < request.max_output_tokens <= response.usage.output_tokens:
                raise InvalidRequest(
                    "The summary has more than max_output_tokens: allow more, or leave it out.",
                    param="max_output_tokens",
                )
            raise EngineFailed(
                "The model's summary is longer than it may write. Try again, or shorten the input."
            )
        if not (summary := _text(response)):
            raise EngineFailed("The model has written no summary. Try again.")
        compaction = Compaction(
            id=f"cmp_{unique}", encrypted_content=self._sealer.seal(owner, "compaction", summary)
        )
        return CompactedResponse(
            id=f"resp_{unique}",
            object="response.compaction",
            created_at=int(self._clock()),
            output=[*spoken, InputItem(compaction=compaction)],
            usage=response.usage,
        )


def _check(request: CreateResponseRequest) -> None:
    for name, asked in (
        ("background", request.background),
        ("conversation", request.HasField("conversation")),
        ("stream", request.stream),
    ):
        if asked:
            raise InvalidRequest(
                f"{name} is not supported for compaction: leave it out.",
                code="unsupported_parameter",
                param=name,
            )
    if not (_given(request) or request.previous_response_id):
        raise InvalidRequest(
            "input is missing: send what is to be made compact, or a previous_response_id.", param="input"
        )


def _given(request: CreateResponseRequest) -> list[InputItem]:
    return (
        []
        if request.input.WhichOneof("input") == "text" and not request.input.text
        else as_items(request.input)
    )


def _asking(request: CreateResponseRequest) -> CreateResponseRequest:
    """Return the request for the summary: the same, but for text only, without a call, and not kept."""
    asking = CreateResponseRequest()
    asking.CopyFrom(request)
    asking.store = False
    asking.text.ClearField("format")
    if asking.tools:
        asking.tool_choice.mode = TOOL_CHOICE_MODE_NONE
    question = InputMessage(role=ROLE_USER, content=InputContent(text=_REQUEST))
    asking.input.items.CopyFrom(InputItemList(items=[*_given(request), InputItem(message=question)]))
    return asking


def _is_users(item: InputItem) -> bool:
    return item.HasField("message") and item.message.role == ROLE_USER


def _text(response: Response) -> str:
    return "".join(part.output_text.text for item in response.output for part in item.message.content).strip()
