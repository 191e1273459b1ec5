"""The service's settings: every one is a flag, and an environment variable with the prefix OPENRESPONSES_."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.engine.tensorrt_settings import TensorRTSettings

_PREFIX: Final = "OPENRESPONSES_"
_ALIKE: Final = 0.8
"""From here on, of 1, a name that is no setting's is taken for a slip."""


class Settings(BaseSettings):
    """Serves OpenAI's Responses API over gRPC."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_ignore_empty=True,
        env_nested_delimiter="__",
        cli_prog_name="python -m service",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        cli_exit_on_error=False,
    )

    engine: Literal["embedded", "scripted", "tensorrt_llm"] = Field(
        "embedded", description="Where tokens come from: the bundled CPU model, a script, or TensorRT-LLM."
    )
    script: Path | None = Field(None, description="The scripted engine's file of turns.")
    model: str | None = Field(
        None, description="A GGUF file for the embedded engine, or TensorRT-LLM's model: a folder or a name."
    )
    dialect: Literal["harmony", "chat"] = Field(
        "harmony", description="What the model writes: Harmony, or text with the markup of chat models."
    )
    listen: str = Field("127.0.0.1:50051", description="HOST:PORT for gRPC; port 0 picks a free one.")
    stream_interval: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        4, description="Tokens to a flush; auto follows the load."
    )
    stream_interval_ms: Annotated[int, Field(ge=0)] = Field(
        100, description="Milliseconds after which waiting tokens are flushed all the same."
    )
    auto_min_interval: Annotated[int, Field(ge=1)] = Field(1, description="Least tokens to an auto flush.")
    auto_max_interval: Annotated[int, Field(ge=1)] = Field(64, description="Most tokens to an auto flush.")
    auto_max_lag_ms: Annotated[float, Field(gt=0)] = Field(
        25.0, description="Milliseconds that the event loop may be late before auto makes flushes larger."
    )
    max_stream_interval: Annotated[int, Field(ge=1)] = Field(
        1024, description="Most tokens to a flush that a request may ask for."
    )
    max_stream_interval_ms: Annotated[int, Field(ge=0)] = Field(
        10_000, description="Most milliseconds to a flush that a request may ask for."
    )
    max_waiting_tokens: Annotated[int, Field(ge=1)] = Field(
        8192, description="Tokens of a response that wait for a slow client before its engine is held back."
    )
    slots: Annotated[int, Field(ge=1)] = Field(4, description="Responses that the engine works on at once.")
    max_queued_requests: Annotated[int, Field(ge=0)] = Field(
        64, description="Responses that may wait for a slot; beyond, requests are refused with 429."
    )
    keepalive_s: Annotated[float, Field(gt=0)] = Field(
        15.0, description="Seconds of silence after which an HTTP stream gets a comment line."
    )
    max_stall_s: Annotated[float, Field(gt=0)] = Field(
        30.0, description="Seconds that a client may leave its stream unread before it is cut off."
    )
    grace_s: Annotated[float, Field(ge=0)] = Field(
        30.0,
        description="Seconds that running responses have to finish after SIGTERM; then they end as failed.",
    )
    max_request_bytes: Annotated[int, Field(ge=1024)] = Field(
        33 * 1024 * 1024, description="Largest gRPC request, in bytes; the gateway's limit is 32 MiB of body."
    )
    max_concurrent_calls: Annotated[int, Field(ge=1)] = Field(
        8192,
        description="Calls that may be open at once, half of them of one connection; beyond, they are "
        "refused with 429.",
    )
    database: str = Field(
        "sqlite:///openresponses.db",
        description="Where responses are kept: sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/NAME.",
    )
    # The database counts Unix time in 64 bits, and knows a time that never comes, which is later than this.
    store_ttl_s: Annotated[int, Field(ge=1, le=2**60)] = Field(
        30 * 86_400,
        description="Seconds that a response is kept after its end, or that of one that continues it.",
    )
    max_stored_bytes: Annotated[int, Field(ge=1024)] = Field(
        64 * 1024 * 1024,
        description="Largest response that is kept, in bytes, its input included; in the background a "
        "larger one fails.",
    )
    lease_s: Annotated[float, Field(gt=0)] = Field(
        10.0, description="Seconds after which a background response counts as lost when its server is gone."
    )
    api_keys_file: Path | None = Field(
        None, description="File of the API keys that may call, one a line; without it, any call may."
    )
    sealing_keys: list[Annotated[str, Field(min_length=16)]] | None = Field(
        None,
        description="Secrets that reasoning is sealed with, of 16 characters or more: the first seals, all "
        "open. By default the database keeps one.",
        repr=False,
    )
    unsupported_tools: Literal["omit", "reject"] = Field(
        "omit", description="Tools that only OpenAI hosts are left out of the prompt, or refused with 400."
    )
    show_reasoning: bool = Field(
        True, description="Send the model's reasoning as text; else it leaves the server only sealed."
    )
    metrics: str | None = Field(None, description="HOST:PORT for Prometheus; none by default.")
    trt: TensorRTSettings = Field(TensorRTSettings(), description="TensorRT-LLM's own settings.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="How much goes to standard error."
    )

    @field_validator("stream_interval", mode="before")
    @classmethod
    def _interval(cls, value: object) -> object:
        if value != "auto" and not (str(value).isdecimal() and int(str(value)) > 0):
            raise ValueError("must be a number of tokens, at least 1, or auto")
        return value

    @field_validator("sealing_keys", mode="before")
    @classmethod
    def _list_of_keys(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("must be a JSON array of texts in the environment")
        return value

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.auto_min_interval > self.auto_max_interval:
            raise ValueError(
                f"--auto-min-interval {self.auto_min_interval} is above --auto-max-interval "
                f"{self.auto_max_interval}"
            )
        return self

    @field_validator("listen", "metrics")
    @classmethod
    def _host_and_port(cls, value: str | None) -> str | None:
        if value is None:
            return None
        host, colon, port = value.rpartition(":")
        if not (host and colon and port.isdecimal() and int(port) < 2**16):
            raise ValueError("must be HOST:PORT, for example 127.0.0.1:50051 or [::1]:0")
        return value


def mistyped_variables(names: Iterable[str]) -> dict[str, str]:
    """Return environment variables that look like a setting's and are none, with the one that is meant.

    Others with the prefix are left alone: Kubernetes makes some for a service of that name.
    """
    known = {*Settings.model_fields, *(f"trt__{name}" for name in TensorRTSettings.model_fields)}
    mistyped = {}
    for name in names:
        setting = name.upper().removeprefix(_PREFIX).lower()
        if name.upper().startswith(_PREFIX) and setting not in known:
            for meant in get_close_matches(setting, known, n=1, cutoff=_ALIKE):
                mistyped[name] = _PREFIX + meant.upper()
    return mistyped
