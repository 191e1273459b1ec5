"""`python -m service.check_stream URL`: checks the stream of any server that speaks OpenAI's Responses API.

It asks for one streamed response and prints what is wrong with it, a line each; the rules are those of
`wire/stream_rules.py`, and those of server-sent events below. It ends with 0 when nothing is wrong, 1 when
something is, 2 when there is no stream to check. The key, if one is needed, is read from OPENAI_API_KEY.

  1. The content type is text/event-stream.
  2. Each event has one `data` line, a JSON object; an `event` line, where there is one, says the same type.
  3. The stream ends with the terminal event, with no `[DONE]` behind it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

import httpx

from service.wire.stream_rules import StreamChecker

_TIMEOUT_S = 120.0


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; return its exit status."""
    given = _arguments(arguments)
    key = os.environ.get("OPENAI_API_KEY", "none")
    base = given.url.rstrip("/").removesuffix("/responses")
    try:
        with httpx.Client(headers={"authorization": f"Bearer {key}"}, timeout=_TIMEOUT_S) as client:
            body = _body(client, base, given)
            with client.stream("POST", f"{base}/responses", json=body) as answer:
                if answer.status_code != 200:
                    answer.read()
                    return _no_stream(f"HTTP {answer.status_code}: {answer.text[:500]}")
                problems, count = check_lines(answer.iter_lines())
                content_type = answer.headers.get("content-type", "")
    except httpx.HTTPStatusError as error:
        return _no_stream(
            f"HTTP {error.response.status_code} for {error.request.url}: does the base end in /v1?"
        )
    except (httpx.HTTPError, OSError, ValueError) as error:
        return _no_stream(f"{type(error).__name__}: {error}")
    if not content_type.startswith("text/event-stream"):
        problems.insert(0, f"the content type is {content_type!r}, not text/event-stream")
    for problem in problems:
        print(problem)  # noqa: T201
    print(f"{count} events, {len(problems) or 'no'} problem{'' if len(problems) == 1 else 's'}")  # noqa: T201
    return 1 if problems else 0


def check_lines(lines: Iterable[str]) -> tuple[list[str], int]:
    """Return what is wrong with a stream of server-sent events, and how many events it had."""
    checker, framing = StreamChecker(), list[str]()
    count, data, name = 0, list[str](), ""
    for line in (*lines, ""):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "data":
                data.append(value)
            case "event":
                name = value
            case "" if not line and data:
                event = _event(data, name, count, framing)
                data, name = [], ""
                if event is not None:
                    checker.feed(event)
                    count += 1
            case _:
                # Comments, ids and retry times say nothing about the events.
                pass
    return framing + checker.finish(), count


def _event(data: list[str], name: str, count: int, problems: list[str]) -> dict[str, Any] | None:
    if data == ["[DONE]"]:
        problems.append("the stream ends with [DONE], which is no event of this API")
        return None
    if len(data) > 1:
        problems.append(f"event {count}: its data is spread over {len(data)} lines")
    try:
        event = json.loads("\n".join(data))
    except ValueError:
        event = None
    if not isinstance(event, dict):
        problems.append(f"event {count}: its data is no JSON object: {data[0][:100]!r}")
        return None
    if name and name != event.get("type"):
        problems.append(f"event {count}: the event line says {name!r}, the data {event.get('type')!r}")
    return event


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m service.check_stream", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("url", metavar="URL", help="the server's base, for example http://127.0.0.1:8080/v1")
    parser.add_argument("--model", help="the model to ask; the first of the server's list by default")
    parser.add_argument("--input", default="What is the capital of France?", help="what to ask it")
    parser.add_argument(
        "--request", metavar="FILE", help="a JSON file with the rest of the request, or all of it"
    )
    return parser.parse_args(arguments)


def _body(client: httpx.Client, base: str, given: argparse.Namespace) -> dict[str, Any]:
    body: dict[str, Any] = {"input": given.input}
    if given.request:
        with open(given.request, "rb") as file:
            body |= json.load(file)
    if given.model:
        body["model"] = given.model
    elif "model" not in body:
        answer = client.get(f"{base}/models").raise_for_status().json()
        body["model"] = answer["data"][0]["id"]
    return {**body, "stream": True}


def _no_stream(why: str) -> int:
    print(f"There is no stream to check: {why}", file=sys.stderr)  # noqa: T201
    return 2


if __name__ == "__main__":
    sys.exit(main())
