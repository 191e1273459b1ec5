"""Files of a request as text: text files as they are, PDF documents page by page. Sans-IO."""

from __future__ import annotations

import base64
import binascii
import io
import re
from typing import Final

import pypdf
from openresponses.v1.content_pb2 import InputFile
from pypdf.errors import PyPdfError

from service.errors import InvalidRequest

MAX_PDF_PAGES: Final = 500
MAX_FILE_CHARACTERS: Final = 2_000_000
"""Most characters of a file's text: more than fits a context."""

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


def file_text(file: InputFile, path: str) -> str:
    """Return a file's text under its name.

    Raises:
        InvalidRequest: the file is not sent along, or neither text nor a PDF document; `param` is its path.

    """
    for elsewhere in ("file_id", "file_url"):
        if getattr(file, elsewhere):
            raise InvalidRequest(
                f"{path}.{elsewhere} is not supported by this server: send the file itself as file_data.",
                code="unsupported_value",
                param=f"{path}.{elsewhere}",
            )
    media_type, data = _content(file, f"{path}.file_data")
    if media_type == "application/pdf" or data.startswith(b"%PDF-"):
        text = _pdf_text(data, f"{path}.file_data")
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
            f"{path}.file_data has more than {MAX_FILE_CHARACTERS} characters: shorten it.",
            code="context_length_exceeded",
            param=f"{path}.file_data",
        )
    return f"File {file.filename or 'without a name'}:\n\n{text}\n\n"


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


def _pdf_text(data: bytes, path: str) -> str:
    try:
        pages = pypdf.PdfReader(io.BytesIO(data)).pages
        count = len(pages)
        texts = [page.extract_text() for page in pages] if count <= MAX_PDF_PAGES else []
    # Broken documents break it in more ways than its own.
    except (PyPdfError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise InvalidRequest(f"{path} is not a PDF document that can be read.", param=path) from None
    if count > MAX_PDF_PAGES:
        raise InvalidRequest(f"{path} has {count} pages, and may have {MAX_PDF_PAGES}.", param=path)
    return "\n\n".join(texts)
