"""A GGUF file's keys and values are read as they were written, and what is no such file is told."""

import gguf
import pytest

from service.engine.gguf_metadata import read_metadata


def test_values(tmp_path):
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("number", 7)
    writer.add_float64("fraction", 0.5)
    writer.add_bool("yes", val=True)
    writer.add_string("text", "Zürich")
    writer.add_array("texts", ["a", "", "字"])
    writer.add_array("numbers", [3, -1])
    writer.add_array("nested", [[1, 2], [3]])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    expected = {
        "number": 7,
        "fraction": 0.5,
        "yes": True,
        "text": "Zürich".encode(),
        "texts": [b"a", b"", "字".encode()],
        "numbers": (3, -1),
        "nested": [(1, 2), (3,)],
    }
    assert read_metadata(path, expected) == expected
    assert read_metadata(path, {"text", "none"}) == {"text": "Zürich".encode()}


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\3\4", b"GGUF" + bytes(12) + b"\xff" * 8])
def test_what_is_no_such_file(tmp_path, content):
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(ValueError, match="GGUF"):
        read_metadata(tmp_path / "a.gguf", {"a"})
