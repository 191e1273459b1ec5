"""The contract that json.proto's rules are tested on, compiled once a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.made_contract import CONTRACT, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], type[Message]]:
    return load(CONTRACT, tmp_path_factory.mktemp("contract"))
