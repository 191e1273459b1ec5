"""What a long input takes is done beside the event loop, on which other clients wait."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.api import responses
from service.api.context import ContextReader
from service.api.responses import Responses
from service.api.sealing import Sealer
from service.files.file_reader import FileReader
from service.files.pdf_reader import PdfReader
from service.run.drain import Drain
from service.run.preparation import Preparation

SEALER = Sealer(["a key of many"])


def on_the_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def sealed_items(count: int) -> CreateResponseRequest:
    request = CreateResponseRequest(model="m", store=True)
    for i in range(count):
        item = request.input.items.items.add().reasoning
        item.id = f"rs_{i}"
        item.encrypted_content = SEALER.seal("o", "reasoning", "A thought.")
    return request


async def test_many_short_items_are_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared as `count_tokens` does, with a runner that looks at what it gets."""
    where: dict[str, bool] = {}

    def noting(name: str, work: Any) -> Any:
        def noted(*args: Any) -> Any:
            where[name] = on_the_loop()
            return work(*args)

        return noted

    async def count_tokens(run: Any) -> int:
        return sum(len(item.reasoning.content) for item in run.request.input.items.items)

    monkeypatch.setattr(responses, "check_unique", noting("check_unique", responses.check_unique))
    monkeypatch.setattr(responses, "with_ids", noting("with_ids", responses.with_ids))
    sealer = SimpleNamespace(open=noting("open", SEALER.open))
    runner = SimpleNamespace(check=lambda _: None, count_tokens=count_tokens)
    nothing: Any = None
    context = ContextReader(nothing, nothing, sealer, FileReader(PdfReader()))  # type: ignore[arg-type]
    prepared = Responses(
        runner,
        nothing,
        context,
        nothing,
        SEALER,
        Drain(),
        Preparation(),
        lambda: "u",  # type: ignore[arg-type]
    )
    for count, expected in ((1, True), (100, False)):
        where.clear()
        assert (await prepared.count_tokens(sealed_items(count), "o")).input_tokens == count
        assert where == dict.fromkeys(("check_unique", "with_ids", "open"), expected)
