"""Files as text: what is read, and what is refused by name."""

import base64
import io

import pypdf
import pytest
from openresponses.v1.content_pb2 import InputFile

from service.dialect.file_text import MAX_FILE_CHARACTERS, file_text
from service.errors import InvalidRequest


def url(data: bytes, media_type: str = "text/plain") -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def pdf(*pages: str) -> bytes:
    """A document with a line of text to a page."""
    writer = pypdf.PdfWriter()
    for text in pages:
        page = writer.add_blank_page(200, 200)
        font = pypdf.generic.DictionaryObject(
            {
                pypdf.generic.NameObject("/Type"): pypdf.generic.NameObject("/Font"),
                pypdf.generic.NameObject("/Subtype"): pypdf.generic.NameObject("/Type1"),
                pypdf.generic.NameObject("/BaseFont"): pypdf.generic.NameObject("/Helvetica"),
            }
        )
        fonts = pypdf.generic.DictionaryObject({pypdf.generic.NameObject("/F1"): font})
        page[pypdf.generic.NameObject("/Resources")] = pypdf.generic.DictionaryObject(
            {pypdf.generic.NameObject("/Font"): fonts}
        )
        content = pypdf.generic.DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode())
        page[pypdf.generic.NameObject("/Contents")] = content
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
def test_read(file, text):
    assert file_text(file, "input[0].content[0]") == text


@pytest.mark.parametrize(
    ("file", "param"),
    [
        (InputFile(file_id="file_1"), "x.file_id"),
        (InputFile(file_url="http://a/b"), "x.file_url"),
        (InputFile(), "x.file_data"),
        (InputFile(file_data="aGVsbG8="), "x.file_data"),
        (InputFile(file_data="data:text/plain;base64,%%%"), "x.file_data"),
        (InputFile(file_data=url(b"\xff\xfe")), "x.file_data"),
        (InputFile(file_data=url(b"x", "application/zip")), "x.file_data"),
        (InputFile(file_data=url(b"%PDF-1.7 and nothing", "application/pdf")), "x.file_data"),
        (InputFile(file_data=url(pdf("Hello")[:-200], "application/pdf")), "x.file_data"),
        (InputFile(file_data=url(pdf(*["x"] * 501), "application/pdf")), "x.file_data"),
        (InputFile(file_data=url(b"x" * (MAX_FILE_CHARACTERS + 1))), "x.file_data"),
    ],
)
def test_refused(file, param):
    with pytest.raises(InvalidRequest) as caught:
        file_text(file, "x")
    assert caught.value.param == param
    assert len(caught.value.message) < 300
