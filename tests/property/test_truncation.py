"""Of a conversation that is too long, as few of the oldest items go as must."""

from hypothesis import given
from hypothesis import strategies as st
from openresponses.v1.content_pb2 import InputContent
from openresponses.v1.item_pb2 import (
    ROLE_DEVELOPER,
    ROLE_USER,
    FunctionCall,
    FunctionCallOutput,
    Input,
    InputItem,
    InputItemList,
    InputMessage,
)

from service.dialect.harmony.input_items import check_items, input_messages
from service.run.truncation import fitting


@st.composite
def conversations(draw: st.DrawFn) -> list[InputItem]:
    items: list[InputItem] = []
    for i in range(draw(st.integers(0, 8))):
        match draw(st.sampled_from(["developer", "user", "call"])):
            case "call":
                items.append(InputItem(function_call=FunctionCall(call_id=f"c{i}", name="f", arguments="{}")))
                output = FunctionCallOutput(call_id=f"c{i}", output=InputContent(text="done"))
                items.append(InputItem(function_call_output=output))
            case author:
                role = ROLE_USER if author == "user" else ROLE_DEVELOPER
                items.append(InputItem(message=InputMessage(role=role, content=InputContent(text=str(i)))))
    if draw(st.booleans()) or not items or not items[-1].HasField("function_call_output"):
        items.append(InputItem(message=InputMessage(role=ROLE_USER, content=InputContent(text="last"))))
    return items


def is_developers(item: InputItem) -> bool:
    return item.message.role == ROLE_DEVELOPER


@given(conversations(), st.integers(0, 20))
def test_the_oldest_go_and_no_more_than_must(items, most):
    kept = fitting(items, lambda rest: len(rest) <= most)
    check_items(kept)
    # Outputs still have their calls.
    input_messages(Input(items=InputItemList(items=kept)))
    assert kept[-1] == items[-1]
    assert [item for item in kept if is_developers(item)] == [item for item in items if is_developers(item)]
    # What is left is the end of what there was, but for the developer's words.
    spoken = [item for item in items if not is_developers(item)]
    rest = [item for item in kept if not is_developers(item)]
    assert rest == spoken[len(spoken) - len(rest) :]
    # A last output stays with its call.
    least = 2 if items[-1].HasField("function_call_output") else 1
    assert len(rest) >= least
    if len(items) <= most:
        assert kept == items
    elif len(kept) < most:
        # One more would not have fitted, or would have been an output without its call.
        assert len(kept) >= most - 1 or len(rest) == least
