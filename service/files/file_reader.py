"""Files of a request as text: text files as they are, PDF documents page by page."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from openresponses.v1.content_pb2 import InputContent, InputContentPart, InputFile
from openresponses.v1.item_pb2 import InputItem

from service.errors import InvalidRequest
from service.files.pdf_reader import MAX_FILE_CHARACTERS, PdfReader

MAX_FILES: Final = 100
"""Most files of a list of items: of a request's input, and of what it continues."""

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w-]+=[^;,]*)*;base64,", re.IGNORECASE)
_TEXT_TYPES: Final = frozenset(
    {
        "application/csv",
        "application/javascript",
        "application/json",
        "application/sql",
        "application/toml",
        "application/x-sh",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "image/svg+xml",
    }
)


class FileReader:
    """Puts the texts of files into their places."""

    def __init__(self, documents: PdfReader) -> None:
        self._documents = documents

    async def read(self, items: Iterable[InputItem], path: str) -> None:
        """Put the text of every file of `items` into its place. `path` names the list that they are.

        Raises:
            InvalidRequest: there are too many, or one is not sent along, too long, or neither text nor a PDF
                document; `param` is its path.
            Overloaded: too many documents wait to be read.

        """
        found = list(islice(_files(items, path), MAX_FILES + 1))
        if len(found) > MAX_FILES:
            raise InvalidRequest(f"{path} may hold {MAX_FILES} files at most.", param=path)
        # What is cheap to refuse, before any is read.
        for part, part_path in found:
            _check_here(part.input_file, part_path)
        for part, part_path in found:
            part.input_text.text = await self._text(part.input_file, part_path)

    async def _text(self, file: InputFile, path: str) -> str:
        # Takes tenths of a second for megabytes.
        media_type, data = await asyncio.to_thread(_content, file, f"{path}.file_data")
        if media_type == "application/pdf" or data.startswith(b"%PDF-"):
            text = await self._documents.text(data, f"{path}.file_data")
        elif not media_type or media_type.startswith("text/") or media_type in _TEXT_TYPES:
            text = _plain_text(data, f"{path}.file_data")
        else:
            raise InvalidRequest(
                f"{path}.file_data is of type {media_type!r}: this server reads text and PDF documents.",
                code="unsupported_value",
                param=f"{path}.file_data",
            )
        if len(text) > MAX_FILE_CHARACTERS:
            raise InvalidRequest(
                f"{path}.file_data may have {MAX_FILE_CHARACTERS} characters at most: shorten it.",
                code="context_length_exceeded",
                param=f"{path}.file_data",
            )
        return f"File {file.filename or 'without a name'}:\n\n{text}\n\n"


def _files(items: Iterable[InputItem], path: str) -> Iterator[tuple[InputContentPart, str]]:
    for i, item in enumerate(items):
        for name, content in _contents(item):
            for j, part in enumerate(content.parts.parts):
                if part.HasField("input_file"):
                    yield part, f"{path}[{i}].{name}[{j}]"


def _contents(item: InputItem) -> Iterator[tuple[str, InputContent]]:
    match item.WhichOneof("item"):
        case "message":
            yield "content", item.message.content
        case "function_call_output":
            yield "output", item.function_call_output.output
        case "custom_tool_call_output":
            yield "output", item.custom_tool_call_output.output


def _check_here(file: InputFile, path: str) -> None:
    for elsewhere in ("file_id", "file_url"):
        if getattr(file, elsewhere):
            raise InvalidRequest(
                f"{path}.{elsewhere} is not supported by this server: send the file itself as file_data.",
                code="unsupported_value",
                param=f"{path}.{elsewhere}",
            )


def _content(file: InputFile, path: str) -> tuple[str, bytes]:
    opening = _DATA_URL.match(file.file_data)
    if opening is None:
        raise InvalidRequest(f"{path} must be a URL of the form data:TYPE;base64,DATA.", param=path)
    try:
        data = base64.b64decode(file.file_data[opening.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest(f"{path} is not base64.", param=path) from None
    return (opening[1] or "").lower(), data


def _plain_text(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidRequest(f"{path} must be text in UTF-8, or a PDF document.", param=path) from None
