"""What comes before a request's own input: the responses it continues, a conversation, items it refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.status_pb2 import (
    ITEM_STATUS_INCOMPLETE,
    RESPONSE_STATUS_IN_PROGRESS,
    RESPONSE_STATUS_QUEUED,
)

from service.api.sealing import Sealer
from service.errors import InvalidRequest, NotFound
from service.items import as_input_item, as_items, item_id, response_id_of
from service.store.conversations import ConversationStore
from service.store.responses import ResponseStore, Stored


class ContextReader:
    """Reads what requests build on."""

    def __init__(self, store: ResponseStore, conversations: ConversationStore, sealer: Sealer) -> None:
        self._store = store
        self._conversations = conversations
        self._sealer = sealer

    async def history(self, request: CreateResponseRequest, owner: str) -> list[InputItem]:
        """Return the items that come before a request's input.

        Raises:
            NotFound: what it names does not exist, or belongs to somebody else.
            InvalidRequest: it names both, or a response that has not ended; or the conversation is full, or
                has an item of the input already.

        """
        conversation_id = _conversation_id(request)
        if not request.previous_response_id and not conversation_id:
            return []
        if request.previous_response_id and conversation_id:
            raise InvalidRequest(
                "previous_response_id and conversation cannot both be set: choose one.",
                param="previous_response_id",
            )
        if conversation_id:
            items = await self._conversations.history(owner, conversation_id, as_items(request.input))
            return list(self._readable(items, owner, "conversation"))
        chain = await self._store.chain(owner, request.previous_response_id)
        if chain[-1].response.status in (RESPONSE_STATUS_QUEUED, RESPONSE_STATUS_IN_PROGRESS):
            raise InvalidRequest(
                "The previous response has not ended yet: wait for it, or cancel it.",
                param="previous_response_id",
            )
        items = [item for stored in chain for item in _items(stored)]
        return list(self._readable(items, owner, "previous_response_id"))

    async def resolve_references(self, request: CreateResponseRequest, owner: str) -> None:
        """Put the items that a request's input refers to in the place of the references.

        Raises:
            NotFound: there is no such item that belongs to `owner`; `param` is its path.

        """
        for i, item in enumerate(request.input.items.items):
            if item.HasField("item_reference"):
                wanted = item.item_reference.id
                found = await self._find(owner, wanted)
                if found is None:
                    raise NotFound(
                        f"input[{i}] refers to the item {wanted[:100]!r}, which is not kept here: send the "
                        "item itself.",
                        code="item_not_found",
                        param=f"input[{i}].id",
                    )
                item.CopyFrom(found)

    def open_seals(self, request: CreateResponseRequest, owner: str) -> None:
        """Put what is sealed in a request's input into the open, for the prompt.

        Raises:
            InvalidRequest: something cannot be opened; `param` is its path.

        """
        for i, item in enumerate(request.input.items.items):
            self._open(item, owner, f"input[{i}]")

    def _readable(self, items: Iterable[InputItem], owner: str, path: str) -> Iterator[InputItem]:
        for item in items:
            self._open(item, owner, path)
            yield item

    def _open(self, item: InputItem, owner: str, path: str) -> None:
        if item.reasoning.encrypted_content:
            text = self._sealer.open(owner, item.reasoning.encrypted_content, f"{path}.encrypted_content")
            del item.reasoning.content[:]
            item.reasoning.content.add(text=text)
        elif item.HasField("compaction"):
            sealed = item.compaction.encrypted_content
            item.compaction.encrypted_content = self._sealer.open(owner, sealed, f"{path}.encrypted_content")

    async def _find(self, owner: str, wanted: str) -> InputItem | None:
        try:
            stored = await self._store.get(owner, response_id_of(wanted))
        except NotFound:
            return None
        return next((item for item in _items(stored) if item_id(item) == wanted), None)


def _conversation_id(request: CreateResponseRequest) -> str:
    choice = request.conversation
    return choice.id or choice.conversation.id


def _items(stored: Stored) -> Iterator[InputItem]:
    """Yield a response's items as input; a call that was cut off is none, since nobody could answer it."""
    yield from stored.input
    for item in stored.response.output:
        if not item.HasField("function_call") or item.function_call.status != ITEM_STATUS_INCOMPLETE:
            yield as_input_item(item)
