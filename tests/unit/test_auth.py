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
