"""Sealed texts are opened up to a length, whoever has made them."""

import pytest

from service.api import sealing
from service.api.sealing import Sealer
from service.errors import InvalidRequest


def test_a_seal_has_a_longest_length(monkeypatch: pytest.MonkeyPatch) -> None:
    sealer = Sealer(["a key of many"])
    sealed = sealer.seal("o", "reasoning", "A thought.")
    monkeypatch.setattr(sealing, "MAX_SEALED_CHARACTERS", len(sealed))
    assert sealer.open("o", "reasoning", sealed, "input[0].encrypted_content") == "A thought."
    monkeypatch.setattr(sealing, "MAX_SEALED_CHARACTERS", len(sealed) - 1)
    with pytest.raises(InvalidRequest, match=f"may have {len(sealed) - 1} characters at most") as caught:
        sealer.open("o", "reasoning", sealed, "input[0].encrypted_content")
    assert caught.value.param == "input[0].encrypted_content"
    assert caught.value.code == "invalid_encrypted_content"
