"""What comes before a request's own input: the responses it continues, a conversation, items it refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.status_pb2 import RESPONSE_STATUS_IN_PROGRESS, RESPONSE_STATUS_QUEUED

from service.api.sealing import Sealer
from service.errors import InvalidRequest, NotFound
from service.files.file_reader import FileReader
from service.items import as_items, as_later_input, item_id, response_id_of
from service.store.conversations import ConversationStore
from service.store.responses import ResponseStore, Stored

MAX_REFERRED_RESPONSES: Final = 100
"""Most responses that the item references of one request may lead to."""


class ContextReader:
    """Reads what requests build on."""

    def __init__(
        self, store: ResponseStore, conversations: ConversationStore, sealer: Sealer, files: FileReader
    ) -> None:
        self._store = store
        self._conversations = conversations
        self._sealer = sealer
        self._files = files

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
            return await self._readable(items, owner, "conversation")
        chain = await self._store.chain(owner, request.previous_response_id)
        if chain[-1].response.status in (RESPONSE_STATUS_QUEUED, RESPONSE_STATUS_IN_PROGRESS):
            raise InvalidRequest(
                "The previous response has not ended yet: wait for it, or cancel it.",
                param="previous_response_id",
            )
        items = [item for stored in chain for item in _items(stored)]
        return await self._readable(items, owner, "previous_response_id")

    async def resolve_references(self, request: CreateResponseRequest, owner: str) -> None:
        """Put the items that a request's input refers to in the place of the references.

        Raises:
            NotFound: there is no such item that belongs to `owner`; `param` is its path.
            InvalidRequest: they lead to too many responses.

        """
        referred: dict[str, dict[str, InputItem]] = {}
        for i, item in enumerate(request.input.items.items):
            if item.HasField("item_reference"):
                wanted = item.item_reference.id
                response_id = response_id_of(wanted)
                if response_id not in referred:
                    if len(referred) == MAX_REFERRED_RESPONSES:
                        raise InvalidRequest(
                            f"input may refer to items of {MAX_REFERRED_RESPONSES} responses at most: send "
                            "the items themselves.",
                            param="input",
                        )
                    referred[response_id] = await self._items_by_id(owner, response_id)
                found = referred[response_id].get(wanted)
                if found is None:
                    raise NotFound(
                        f"input[{i}] refers to the item {wanted[:100]!r}, which is not kept here: send the "
                        "item itself.",
                        code="item_not_found",
                        param=f"input[{i}].id",
                    )
                item.CopyFrom(found)

    async def open_up(self, items: Sequence[InputItem], owner: str, path: str = "input") -> None:
        """Put what a client sends sealed, or as files, into the open, for the prompt.

        Raises:
            InvalidRequest: something cannot be opened or read; `param` is its path under `path`.
            Overloaded: too many documents wait to be read.

        """
        for i, item in enumerate(items):
            self._open(item, owner, f"{path}[{i}]")
        await self._files.read(items, path)

    async def _readable(self, items: Iterable[InputItem], owner: str, path: str) -> list[InputItem]:
        """Return kept items with their seals opened and their files read.

        A thought whose key is gone is left out, since no client could mend that; without a summary, though,
        there is nothing to go on from.
        """
        readable = []
        for item in items:
            try:
                self._open(item, owner, path)
            except InvalidRequest:
                if not item.HasField("reasoning"):
                    raise
                continue
            readable.append(item)
        await self._files.read(readable, path)
        return readable

    def _open(self, item: InputItem, owner: str, path: str) -> None:
        if item.reasoning.encrypted_content:
            text = self._sealer.open(owner, item.reasoning.encrypted_content, f"{path}.encrypted_content")
            del item.reasoning.content[:]
            item.reasoning.content.add(text=text)
        elif item.HasField("compaction"):
            sealed = item.compaction.encrypted_content
            item.compaction.encrypted_content = self._sealer.open(owner, sealed, f"{path}.encrypted_content")

    async def _items_by_id(self, owner: str, response_id: str) -> dict[str, InputItem]:
        try:
            stored = await self._store.get(owner, response_id)
        except NotFound:
            return {}
        return {item_id(item): item for item in _items(stored)}


def _conversation_id(request: CreateResponseRequest) -> str:
    choice = request.conversation
    return choice.id or choice.conversation.id


def _items(stored: Stored) -> Iterator[InputItem]:
    yield from stored.input
    yield from as_later_input(stored.response.output)
