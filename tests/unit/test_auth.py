"""The file of API keys: what counts as a key."""

import pytest

from service.errors import StartupError
from service.rpc.auth import read_keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("one\ntwo\n", {"one", "two"}),
        ("  one  \r\n\n\ttwo", {"one", "two"}),
        ("# a note\none", {"one"}),
        ("  # a note that is set in\none", {"one"}),
        ("one # is all of it", {"one # is all of it"}),
    ],
)
def test_keys(tmp_path, text, keys):
    (tmp_path / "keys").write_text(text)
    assert read_keys(tmp_path / "keys") == keys


@pytest.mark.parametrize("text", ["", "\n \n", "# one\n  # two"])
def test_a_file_without_keys(tmp_path, text):
    (tmp_path / "keys").write_text(text)
    with pytest.raises(StartupError, match="no API key"):
        read_keys(tmp_path / "keys")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "latin-1", "utf-8-sig"])
def test_any_encoding(tmp_path, encoding):
    """Of notes, that is; where keys are not what they seem, their line is named."""
    (tmp_path / "keys").write_bytes("# où\nkey\n".encode(encoding))
    if encoding in ("utf-8", "latin-1"):
        assert read_keys(tmp_path / "keys") == {"key"}
    else:
        with pytest.raises(StartupError, match=r"^Line [12] of "):
            read_keys(tmp_path / "keys")


@pytest.mark.parametrize("key", ["clé", "ключ", "a\u00a0b", "a\tb", "a\x7fb", "a\0b"])
def test_a_key_that_no_header_holds_the_same_everywhere(tmp_path, key):
    (tmp_path / "keys").write_text(f"# a note, où que ce soit\none\n\n  {key}\ntwo\n", encoding="utf-8")
    with pytest.raises(
        StartupError, match=r"^Line 4 of .* is no API key: .*ASCII.*--api-keys-file"
    ) as caught:
        read_keys(tmp_path / "keys")
    assert key not in str(caught.value)
