"""The settings of the TensorRT-LLM engine; names are its own where it has them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

_Count = Annotated[int, Field(ge=1)]


class TensorRTSettings(BaseModel):
    """Flags `--trt.NAME`; in the environment OPENRESPONSES_TRT__NAME."""

    served_model_name: str | None = Field(
        None, description="The name that clients send; else the last part of --model."
    )
    tensor_parallel_size: _Count = Field(1, description="GPUs that share each layer.")
    pipeline_parallel_size: _Count = Field(1, description="Groups of GPUs that share the layers.")
    moe_expert_parallel_size: _Count | None = Field(None, description="GPUs that share the experts.")
    max_batch_size: _Count = Field(256, description="Responses that run at once.")
    max_num_tokens: _Count = Field(8192, description="Tokens of all requests in one step.")
    max_seq_len: _Count = Field(131_072, description="Prompt and output of one response, in tokens.")
    stream_interval: _Count = Field(
        4, description="Decoding steps to a chunk of the engine; NVIDIA advises 2 to 20."
    )
    kv_cache_free_gpu_memory_fraction: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.9, description="Share of the free GPU memory that the KV cache takes."
    )
    kv_cache_reuse: bool = Field(True, description="Reuse the KV cache of common prefixes.")
    kv_cache_dtype: str | None = Field(None, description="Type of the KV cache, for example fp8.")
    guided_decoding_backend: Literal["xgrammar", "llguidance"] | None = Field(
        None, description="Holds calls to their schemas and makes tool_choice: required possible."
    )
    options: Path | None = Field(None, description="A YAML file of further arguments for LLM.")
