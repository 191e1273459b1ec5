"""Items as they go round."""

import pytest
from openresponses.v1.item_pb2 import CustomToolCall, FunctionCall, OutputItem
from openresponses.v1.status_pb2 import ITEM_STATUS_COMPLETED, ITEM_STATUS_INCOMPLETE

from service.items import as_later_input


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call"])
def test_a_call_that_was_cut_off_is_no_later_input(kind):
    call = {"function_call": FunctionCall, "custom_tool_call": CustomToolCall}[kind]
    items = [
        OutputItem(**{kind: call(id=str(status), status=status)})
        for status in (ITEM_STATUS_COMPLETED, ITEM_STATUS_INCOMPLETE)
    ]
    assert [getattr(item, kind).id for item in as_later_input(items)] == [str(ITEM_STATUS_COMPLETED)]
