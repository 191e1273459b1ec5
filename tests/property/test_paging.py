"""Pages of a list: one after another, in either direction, they are the list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openresponses.v1.item_pb2 import InputItem, InputMessage
from openresponses.v1.stored_pb2 import ItemList, Page

from service.api.paging import bounds_of, item_list, page_of
from service.errors import InvalidRequest, NotFound


def items(count: int) -> list[InputItem]:
    return [InputItem(message=InputMessage(id=f"msg_{i}")) for i in range(count)]


def listed(count: int, page: Page) -> ItemList:
    data, has_more = page_of(items(count), bounds_of(page))
    return item_list(data, has_more=has_more)


@given(st.integers(0, 30), st.integers(1, 12), st.sampled_from(["asc", "desc", ""]))
def test_pages_behind_one_another(count, limit, order):
    seen, after = [], ""
    while True:
        page = listed(count, Page(limit=limit, order=order, after=after))
        assert len(page.data) <= limit
        assert (page.first_id, page.last_id) == (
            (page.data[0].message.id, page.data[-1].message.id) if page.data else ("", "")
        )
        seen += page.data
        if not page.has_more:
            break
        after = page.last_id
    assert seen == (items(count) if order == "asc" else items(count)[::-1])


@given(st.integers(1, 30), st.integers(1, 12), st.sampled_from(["asc", "desc"]))
def test_pages_before_one_another(count, limit, order):
    whole = items(count) if order == "asc" else items(count)[::-1]
    seen, before = [whole[-1]], whole[-1].message.id
    while True:
        page = listed(count, Page(limit=limit, order=order, before=before))
        seen = [*page.data, *seen]
        if not page.has_more:
            break
        before = page.first_id
    assert seen == whole


@given(st.integers(2, 30), st.data())
def test_what_lies_between_two_items(count, data):
    start, end = sorted(data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=2, unique=True)))
    page = listed(count, Page(limit=100, order="asc", after=f"msg_{start}", before=f"msg_{end}"))
    assert list(page.data) == items(count)[start + 1 : end]
    assert not page.has_more


@pytest.mark.parametrize(
    ("page", "error", "param"),
    [
        (Page(limit=0), InvalidRequest, "limit"),
        (Page(limit=101), InvalidRequest, "limit"),
        (Page(order="up"), InvalidRequest, "order"),
        (Page(after="msg_9"), NotFound, "after"),
        (Page(before="msg_9"), NotFound, "before"),
    ],
)
def test_wrong_pages_are_refused(page, error, param):
    with pytest.raises(error) as caught:
        listed(3, page)
    assert caught.value.param == param
