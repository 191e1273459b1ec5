"""A process that holds a model to one schema after another, with little memory left to do so.

It reads a schema a line, and answers each with a line: `refused`, or `held`. Above its limit it dies, as the
service would.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from service.engine.base import FunctionSchema
from service.engine.embedded import bundled_model
from service.engine.llama_runtime import ChatMessage, LlamaRuntime, Sampling
from service.engine.schema_grammar import arguments_grammar
from service.errors import InvalidRequest

MEMORY_BYTES = 256 * 2**20
"""Address space for a grammar, beside what the process has without any."""
_QUESTION = ChatMessage("user", "Call it.")


class GrammarChild:
    """The process, from the side of a test. It is started again where it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def ask(self, schema: object) -> str:
        """Return its answer; an empty text where it has died of the question."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.grammar_child"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = ""
        try:
            print(json.dumps(schema), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline().strip()
        finally:
            # Whoever gave up waiting must not leave an answer behind for the next question.
            if not answer:
                self.close()
        return answer

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


async def _serve() -> None:
    runtime = LlamaRuntime(bundled_model(), slots=1, context_tokens=512)
    await _hold(runtime, {"type": "object"})
    _limit_memory()
    for line in sys.stdin:
        try:
            await _hold(runtime, json.loads(line))
            print("held", flush=True)
        except InvalidRequest:
            print("refused", flush=True)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


async def _hold(runtime: LlamaRuntime, schema: object) -> None:
    grammar = arguments_grammar(FunctionSchema("f", json.dumps(schema)))
    sampling = replace(Sampling(0, 1), grammar=grammar)
    async with runtime.chat([_QUESTION], sampling, max_tokens=2) as completion:
        async for _ in completion:
            pass


if __name__ == "__main__":
    asyncio.run(_serve())
