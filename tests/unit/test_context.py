"""Items that a request refers to are read response by response, however many there are."""

from types import SimpleNamespace
from typing import Any

import pytest
from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.api.context import ContextReader
from service.errors import NotFound


class Store:
    """Keeps two responses, `a` and `b`, of three items each, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def get(self, owner: str, response_id: str) -> Any:
        self.asked.append(response_id)
        if response_id not in ("resp_a", "resp_b"):
            raise NotFound("")
        unique = response_id.removeprefix("resp_")
        items = [item(f"msg_{unique}i{i:04x}", unique) for i in range(3)]
        return SimpleNamespace(input=items, response=Response())


def item(item_id: str, text: str) -> InputItem:
    made = InputItem()
    made.message.id = item_id
    made.message.content.text = text
    return made


def referring(*ids: str) -> CreateResponseRequest:
    request = CreateResponseRequest()
    for item_id in ids:
        request.input.items.items.add().item_reference.id = item_id
    return request


async def test_each_response_is_read_once():
    store = Store()
    ids = [f"msg_{unique}i{i:04x}" for _ in range(100) for i in range(3) for unique in "ab"]
    request = referring(*ids)
    await ContextReader(store, None, None, None).resolve_references(request, "me")
    assert [each.message.id for each in request.input.items.items] == ids
    assert {each.message.content.text for each in request.input.items.items} == {"a", "b"}
    assert sorted(store.asked) == ["resp_a", "resp_b"]


@pytest.mark.parametrize(("missing", "place"), [("msg_ai0003", 1), ("msg_ci0000", 1), ("nothing", 1)])
async def test_what_is_missing_is_named(missing, place):
    request = referring("msg_ai0000", missing)
    reader = ContextReader(Store(), None, None, None)
    with pytest.raises(NotFound) as caught:
        await reader.resolve_references(request, "me")
    assert caught.value.param == f"input[{place}].id"
