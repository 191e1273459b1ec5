"""llmapi: configuration classes that LLM takes."""

from dataclasses import dataclass
from typing import Any


@dataclass(kw_only=True)
class KvCacheConfig:
    """llm_args.py."""

    enable_block_reuse: bool = True
    free_gpu_memory_fraction: float | None = None
    dtype: str = "auto"


@dataclass(kw_only=True)
class GuidedDecodingParams:
    """sampling_params.py: exactly one of its fields is set."""

    json: Any = None
    regex: str | None = None
    grammar: str | None = None
    json_object: bool = False
    structural_tag: str | None = None
