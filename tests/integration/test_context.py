"""What a request may build on, within its limits."""

import json
from pathlib import Path

import pytest
from openresponses.v1.item_pb2 import Input, InputItem, InputItemList, ItemReference
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.api import context
from service.api.context import ContextReader
from service.api.sealing import Sealer
from service.errors import InvalidRequest
from service.files.file_reader import FileReader
from service.files.pdf_reader import PdfReader
from service.items import as_items, with_ids
from service.store.conversations import ConversationStore
from service.store.database import Database
from service.store.responses import Limits, ResponseStore
from service.wire.openai_json import decode

OWNER = "o"


async def test_references_lead_to_so_many_responses_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(context, "MAX_REFERRED_RESPONSES", 2)
    database = await Database.open(f"sqlite:///{tmp_path}/responses.db")
    conversations = ConversationStore(database, lambda: "c")
    store = ResponseStore(database, conversations, Limits(ttl_s=60, max_bytes=10_000), lambda: 0)
    reader = ContextReader(store, conversations, Sealer(["a key of many"]), FileReader(PdfReader()))
    ids = []
    for unique in ("a" * 32, "b" * 32, "c" * 32):
        items = with_ids(as_items(Input(text=unique)), unique)
        ids.append(items[0].message.id)
        await store.save(OWNER, Response(id=f"resp_{unique}"), items)

    def referring(*ids: str) -> CreateResponseRequest:
        items = [InputItem(item_reference=ItemReference(id=item_id)) for item_id in ids]
        return CreateResponseRequest(input=Input(items=InputItemList(items=items)))

    # Of a response any number may come.
    many = referring(*[ids[0], ids[1]] * 200)
    await reader.resolve_references(many, OWNER)
    assert many.input.items.items[-1].message.content.parts.parts[0].input_text.text == "b" * 32
    with pytest.raises(InvalidRequest, match="2 responses"):
        await reader.resolve_references(referring(*ids), OWNER)
    await database.close()


async def test_a_thought_whose_key_is_gone_is_left_out(tmp_path: Path):
    database = await Database.open(f"sqlite:///{tmp_path}/responses.db")
    conversations = ConversationStore(database, lambda: "c")
    store = ResponseStore(database, conversations, Limits(ttl_s=60, max_bytes=10_000), lambda: 0)
    files = FileReader(PdfReader())
    old, new = Sealer(["the key of yesterday"]), Sealer(["the key of today"])

    def sealed(kind: str) -> InputItem:
        document = {"type": kind, "encrypted_content": old.seal(OWNER, kind, "A thought."), "summary": []}
        request = {"model": "m", "input": [document]}
        return decode(CreateResponseRequest, json.dumps(request).encode()).input.items.items[0]

    for kind, kept in (("reasoning", 1), ("compaction", None)):
        conversation = await conversations.create(OWNER, [sealed(kind), *as_items(Input(text="Hi"))], {}, 0)
        request = CreateResponseRequest()
        request.conversation.id = conversation.id
        assert len(await ContextReader(store, conversations, old, files).history(request, OWNER)) == 2
        reader = ContextReader(store, conversations, new, files)
        if kept is None:
            with pytest.raises(InvalidRequest):
                await reader.history(request, OWNER)
        else:
            assert len(await reader.history(request, OWNER)) == kept
        await conversations.delete(OWNER, conversation.id)
    await database.close()
