"""The reference page says of everything in the contract what the server does with it, and it is so."""

import re

import pytest
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.item_pb2 import Input, InputItem, InputItemList
from openresponses.v1.json_pb2 import json as json_options
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.tool_pb2 import Tool

from service.api import context, conversations, responses, sealing
from service.dialect.harmony import tools
from service.dialect.harmony.input_items import input_messages
from service.engine import grammar_size, schema_grammar
from service.errors import InvalidRequest
from service.files import file_reader, pdf_reader
from service.run import json_schema, preparation, schema_work, tool_validation, validation
from service.run.opening import is_offered
from service.store import conversations as conversation_store
from service.transport import incoming
from service.wire import json_text
from tests.processes import ROOT
from tests.unit.test_validation import REFUSED

PAGE = (ROOT / "service" / "REFERENCE.md").read_text()


def table(heading: str) -> dict[str, list[str]]:
    """The rows of the table under a heading, by the name in their first column."""
    section = re.split(r"^## ", PAGE.partition(f"## {heading}")[2], flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| `([^`]+)` \|(.*)\|$", section, re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in rows}


PARAMETERS, TOOLS, ITEMS, EVENTS = map(table, ("Parameters", "Tools", "Items", "Events"))


def members(message: type) -> dict[str, str]:
    """The members of a union by their tags."""
    return {
        field.GetOptions().Extensions[json_options].tag or field.name: field.name
        for field in message.DESCRIPTOR.oneofs[0].fields  # type: ignore[attr-defined]
    }


def test_it_is_complete():
    assert list(PARAMETERS) == [field.name for field in CreateResponseRequest.DESCRIPTOR.fields]
    assert list(TOOLS) == list(members(Tool))
    assert list(ITEMS) == [name for name in members(InputItem) if name != "unknown"]
    assert list(EVENTS) == list(members(ResponseStreamEvent))


def test_parameters_that_are_refused_are():
    refused = {name for name, (state, *_) in PARAMETERS.items() if state == "refused"}
    assert refused <= {param for _, param in REFUSED}
    assert {state for state, *_ in PARAMETERS.values()} == {"works", "hint", "refused"}


@pytest.mark.parametrize("name", TOOLS)
def test_tools(name):
    tool = Tool()
    getattr(tool, members(Tool)[name]).SetInParent()
    assert is_offered(tool) == (TOOLS[name][0] == "works")


@pytest.mark.parametrize("name", ITEMS)
def test_items(name):
    item = InputItem()
    getattr(item, name).SetInParent()
    code = None
    try:
        input_messages(Input(items=InputItemList(items=[item])))
    except InvalidRequest as error:
        code = error.code
    # A reference is replaced by its item before the prompt is rendered.
    works = code != "unsupported_value" or name == "item_reference"
    assert works == (ITEMS[name][1] == "works")
    if ITEMS[name][0]:
        assert works


def test_events():
    sources = "".join((ROOT / "service" / path).read_text() for path in ("run/builder.py", "store/ending.py"))
    sent = set(re.findall(r'"(response\.[a-z_.]+)"', sources))
    assert {name for name, (state, *_) in EVENTS.items() if state == "sent"} == sent


LIMITS = [
    incoming.SILENCE_S,
    json_text.MAX_VALUES,
    json_text.MAX_NESTING_LEVELS,
    responses.MAX_INPUT_ITEMS,
    conversations.MAX_NEW_ITEMS,
    conversation_store.MAX_CONVERSATION_ITEMS,
    tool_validation.MAX_TOOLS,
    tool_validation.MAX_SCHEMAS_BYTES,
    tool_validation.MAX_GRAMMAR_BYTES,
    tool_validation.MAX_GRAMMAR_LEVELS,
    tools.MAX_TOOLS_BYTES,
    tools.MAX_WORD_CHARS,
    json_schema.MAX_SCHEMA_BYTES,
    json_schema.MAX_CHECKS,
    schema_work.MAX_SCHEMA_LEVELS,
    schema_work.MAX_SCHEMA_OBJECTS,
    schema_work.MAX_PATTERNS,
    schema_work.MAX_DOCUMENT_LEVELS,
    schema_work.MAX_CHECKS_AT_ONE_PLACE,
    schema_grammar.MAX_SCHEMA_VALUES,
    grammar_size.MAX_GRAMMAR_PARTS,
    validation.MAX_METADATA_PAIRS,
    validation.MAX_METADATA_KEY_CHARACTERS,
    validation.MAX_METADATA_VALUE_CHARACTERS,
    preparation.MAX_AT_ONCE,
    preparation.MAX_WAITING,
    sealing.MAX_SEALED_CHARACTERS,
    context.MAX_REFERRED_RESPONSES,
    file_reader.MAX_FILES,
    pdf_reader.MAX_FILE_CHARACTERS,
    pdf_reader.MAX_PDF_PAGES,
    pdf_reader.MAX_PDF_CPU_S,
    pdf_reader.MAX_AT_ONCE,
    pdf_reader.MAX_WAITING,
]


def test_limits():
    section = PAGE.partition("## Limits")[2].partition("## ")[0]
    numbers = {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", section)}
    assert set(LIMITS) <= numbers
