"""Files as text: what is read, and what is refused by name."""

import asyncio
import base64
import io

import pypdf
import pytest
from openresponses.v1.content_pb2 import InputFile
from openresponses.v1.item_pb2 import InputItem

from service.errors import InvalidRequest, Overloaded
from service.files.file_reader import MAX_FILES, FileReader
from service.files.pdf_reader import MAX_FILE_CHARACTERS, MAX_WAITING, PdfReader
from service.places import Places


def url(data: bytes, media_type: str = "text/plain") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def pdf(*pages: str) -> bytes:
    """A document with a line of text to a page."""
    return document(*(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode() for text in pages))


def document(*drawings: bytes) -> bytes:
    writer = pypdf.PdfWriter()
    names = pypdf.generic.NameObject
    font = pypdf.generic.DictionaryObject(
        {
            names("/Type"): names("/Font"),
            names("/Subtype"): names("/Type1"),
            names("/BaseFont"): names("/Helvetica"),
        }
    )
    fonts = pypdf.generic.DictionaryObject({names("/F1"): font})
    # The same drawing is written once, however many pages show it.
    contents = {}
    for drawing in drawings:
        if drawing not in contents:
            stream = pypdf.generic.DecodedStreamObject()
            stream.set_data(drawing)
            contents[drawing] = writer._add_object(stream.flate_encode())
        page = writer.add_blank_page(200, 200)
        page[names("/Resources")] = pypdf.generic.DictionaryObject({names("/Font"): fonts})
        page[names("/Contents")] = contents[drawing]
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (InputFile(filename="a.txt", file_data=url("wörld".encode())), "File a.txt:\n\nwörld\n\n"),
        (
            InputFile(file_data=url(b"\xef\xbb\xbfx", "text/markdown;charset=utf-8")),
            "File without a name:\n\nx\n\n",
        ),
        (InputFile(filename="a.json", file_data=url(b"{}", "application/json")), "File a.json:\n\n{}\n\n"),
        (
            InputFile(filename="a.pdf", file_data=url(pdf("Hello", "there"), "application/pdf")),
            "File a.pdf:\n\nHello\n\nthere\n\n",
        ),
        (InputFile(filename="a", file_data=url(pdf("Hello"))), "File a:\n\nHello\n\n"),
    ],
)
async def test_read(file, text):
    assert await read(file) == text


async def read(file: InputFile) -> str:
    item = InputItem()
    item.message.content.parts.parts.add().input_file.CopyFrom(file)
    await FileReader(PdfReader()).read([item], "input")
    return item.message.content.parts.parts[0].input_text.text


@pytest.mark.parametrize(
    ("file", "param"),
    [
        (InputFile(file_id="file_1"), "input[0].content[0].file_id"),
        (InputFile(file_url="http://a/b"), "input[0].content[0].file_url"),
        (InputFile(), "input[0].content[0].file_data"),
        (InputFile(file_data="aGVsbG8="), "input[0].content[0].file_data"),
        (InputFile(file_data="data:text/plain;base64,%%%"), "input[0].content[0].file_data"),
        (InputFile(file_data=url(b"\xff\xfe")), "input[0].content[0].file_data"),
        (InputFile(file_data=url(b"x", "application/zip")), "input[0].content[0].file_data"),
        (
            InputFile(file_data=url(b"%PDF-1.7 and nothing", "application/pdf")),
            "input[0].content[0].file_data",
        ),
        (InputFile(file_data=url(pdf("Hello")[:-200], "application/pdf")), "input[0].content[0].file_data"),
        (InputFile(file_data=url(pdf(*["x"] * 501), "application/pdf")), "input[0].content[0].file_data"),
        (InputFile(file_data=url(b"x" * (MAX_FILE_CHARACTERS + 1))), "input[0].content[0].file_data"),
    ],
)
async def test_refused(file, param):
    with pytest.raises(InvalidRequest) as caught:
        await read(file)
    assert caught.value.param == param
    assert len(caught.value.message) < 300


async def test_files_are_found_wherever_content_is():
    items = [InputItem(), InputItem(), InputItem()]
    items[0].message.content.parts.parts.add().input_text.text = "before"
    for content in (
        items[0].message.content,
        items[1].function_call_output.output,
        items[2].custom_tool_call_output.output,
    ):
        content.parts.parts.add().input_file.file_data = url(b"x")
    await FileReader(PdfReader()).read(items, "input")
    assert [part.input_text.text for part in items[0].message.content.parts.parts] == [
        "before",
        "File without a name:\n\nx\n\n",
    ]
    assert items[1].function_call_output.output.parts.parts[0].HasField("input_text")
    assert items[2].custom_tool_call_output.output.parts.parts[0].HasField("input_text")


async def test_what_is_cheap_to_refuse_is_refused_before_any_is_read():
    item = InputItem()
    item.message.content.parts.parts.add().input_file.file_data = url(pdf("Hello"))
    item.message.content.parts.parts.add().input_file.file_id = "file_1"
    documents = PdfReader()
    # Nobody reads here: who asks waits for ever.
    documents._places = Places(0, 1, "wait")
    with pytest.raises(InvalidRequest, match="file_id"):
        await asyncio.wait_for(FileReader(documents).read([item], "input"), 5)


async def test_a_document_that_comes_twice_at_once_is_read_once(monkeypatch):
    reader = PdfReader()
    read = []

    async def reading(document: bytes, path: str) -> str:
        read.append(path)
        await asyncio.sleep(0)
        return "text"

    monkeypatch.setattr(reader, "_read", reading)
    reader._places = Places(1, 5, "wait")
    assert await asyncio.gather(*(reader.text(b"the same", str(i)) for i in range(5))) == ["text"] * 5
    assert read == ["0"]


async def test_the_number_of_files_is_limited():
    item = InputItem()
    for _ in range(MAX_FILES + 1):
        item.message.content.parts.parts.add().input_file.file_data = url(b"x")
    with pytest.raises(InvalidRequest, match=f"{MAX_FILES} files"):
        await FileReader(PdfReader()).read([item], "input")


async def test_a_document_that_takes_too_long_is_refused():
    drawing = b"BT /F1 12 Tf 0 0 Td\n" + b"(hello) Tj 1 0 Td\n" * 20_000 + b"ET"
    small = document(*[drawing] * 400)
    assert len(small) < 200_000
    with pytest.raises(InvalidRequest, match="cannot be read within 1 s"):
        await PdfReader(max_cpu_s=1).text(small, "x")


async def test_a_document_whose_text_is_too_long_is_refused():
    with pytest.raises(InvalidRequest, match="characters at most"):
        await PdfReader().text(pdf(*["x" * 50_000] * 45), "x")


async def test_documents_that_were_read_lately_are_remembered():
    reader = PdfReader()
    hello = pdf("Hello")
    first = await reader.text(hello, "x")
    # Nobody is left to read: what it says can only come from memory.
    reader._places = Places(0, 1, "wait")
    assert await reader.text(hello, "x") == first


async def test_only_so_many_documents_may_wait():
    reader = PdfReader()
    reader._places = Places(0, MAX_WAITING, "documents wait")
    waiting = [asyncio.create_task(reader.text(str(i).encode(), "x")) for i in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match=f"{MAX_WAITING} documents wait"):
        await reader.text(b"one more", "x")
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.text(b"one more", "x"), 0.01)
