"""What the runtime's callbacks make of a completion, and how it ends when the runtime breaks."""

import pytest

from service.engine.llama_runtime import Completion
from service.errors import EngineFailed

PIECE = {"choices": [{"delta": {"content": "Hello"}}]}


async def pieces(completion: Completion) -> list[str]:
    return [piece async for piece in completion]


@pytest.mark.parametrize(("reason", "truncated"), [("stop", False), ("length", True)])
async def test_a_text_ends_by_its_finish_reason(reason, truncated):
    completion = Completion()
    for chunk in (PIECE, {"choices": [{"delta": {}, "finish_reason": reason}]}):
        completion._chunks.put_nowait(chunk)
    completion.end(None)
    assert await pieces(completion) == ["Hello"]
    assert completion.truncated is truncated


@pytest.mark.parametrize("fault", [RuntimeError("a broken pipe"), None])
@pytest.mark.parametrize("chunks", [[], [PIECE]])
async def test_an_end_without_one_is_a_failure(chunks, fault):
    completion = Completion()
    for chunk in chunks:
        completion._chunks.put_nowait(chunk)
    completion.end(fault)
    with pytest.raises(EngineFailed) as caught:
        await pieces(completion)
    assert "pipe" not in caught.value.message
