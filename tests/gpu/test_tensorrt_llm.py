"""The engine contract on a real GPU: `make test-gpu`. GPU_MODEL names the model, gpt-oss-20b by default."""

import importlib.util
import os
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from service.engine.tensorrt_llm import TensorRTLLMEngine
from service.engine.tensorrt_settings import TensorRTSettings
from tests.engine_contract import MAX_QUEUED_REQUESTS, SLOTS, EngineContract
from tests.generation import generation

MODEL = os.environ.get("GPU_MODEL", "openai/gpt-oss-20b")


def missing() -> str:
    """Why these tests cannot run here; empty when they can."""
    if importlib.util.find_spec("tensorrt_llm") is None:
        return "TensorRT-LLM is not installed"
    return "" if shutil.which("nvidia-smi") else "there is no NVIDIA GPU"


pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[1, 4, 10])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[TensorRTLLMEngine]:
    settings = TensorRTSettings(max_batch_size=SLOTS, max_seq_len=8192, stream_interval=request.param)
    engine = TensorRTLLMEngine(MODEL, settings, max_queued_requests=MAX_QUEUED_REQUESTS)
    yield engine
    await engine.close()


class TestContract(EngineContract):
    REQUEST = generation("What is the capital of France?")
    ENDLESS = generation("Count from one to ten thousand, one number a line.")
