"""Compaction: a long conversation becomes a summary that only the server can read, to go on from.

The model itself writes the summary, in a response of its own that is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from openresponses.v1.item_pb2 import ROLE_USER, Compaction, InputItem
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.status_pb2 import RESPONSE_STATUS_COMPLETED
from openresponses.v1.stored_pb2 import CompactedResponse

from service.api.responses import Responses
from service.api.sealing import Sealer
from service.errors import EngineFailed
from service.items import as_items, with_ids

_REQUEST: Final = (
    "Summarize the conversation so far for yourself, so that you can go on from the summary alone: the "
    "user's goals and constraints, what has been decided and done, the facts and names that matter, and what "
    "is left to do."
)


class Compactor:
    """Makes conversations compact. `new_id` gives unique alphanumeric texts, `clock` Unix time in seconds."""

    def __init__(
        self, responses: Responses, sealer: Sealer, new_id: Callable[[], str], clock: Callable[[], float]
    ) -> None:
        self._responses = responses
        self._sealer = sealer
        self._new_id = new_id
        self._clock = clock

    async def compact(self, request: CreateResponseRequest, owner: str) -> CompactedResponse:
        """Return the user's messages of the input, and the conversation's summary.

        Raises:
            EngineFailed: the model wrote no summary, or not to its end.
            ServiceError: the request is refused.

        """
        unique = self._new_id()
        spoken = [item for item in with_ids(as_items(request.input), unique) if _is_users(item)]
        asking = CreateResponseRequest(model=request.model, store=False)
        asking.input.items.items.extend(as_items(request.input))
        asking.input.items.items.add().message.role = ROLE_USER
        asking.input.items.items[-1].message.content.text = _REQUEST
        if request.HasField("instructions"):
            asking.instructions = request.instructions
        if request.HasField("previous_response_id"):
            asking.previous_response_id = request.previous_response_id
        response = await self._responses.create(asking, owner)
        if response.status != RESPONSE_STATUS_COMPLETED:
            raise EngineFailed(
                "The model's summary is longer than it may write. Try again, or shorten the input."
            )
        if not (summary := _text(response)):
            raise EngineFailed("The model has written no summary. Try again.")
        compaction = Compaction(id=f"cmp_{unique}", encrypted_content=self._sealer.seal(owner, summary))
        return CompactedResponse(
            id=f"resp_{unique}",
            object="response.compaction",
            created_at=int(self._clock()),
            output=[*spoken, InputItem(compaction=compaction)],
            usage=response.usage,
        )


def _is_users(item: InputItem) -> bool:
    return item.HasField("message") and item.message.role == ROLE_USER


def _text(response: Response) -> str:
    return "".join(part.output_text.text for item in response.output for part in item.message.content).strip()
