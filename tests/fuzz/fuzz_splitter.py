"""Coverage-guided fuzzing of the splitter and the builder behind it: `make fuzz`, for FUZZ_SECONDS.

An input is a list of tokens, three bytes each, the top bit of which ends a chunk. The corpus begins with the
conformance vectors, and the dictionary with control tokens and header words. For every input

  - nothing raises;
  - its chunking gives what token by token gives, but for the grouping of deltas;
  - the stream of events keeps every rule, cut, finished or broken off.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["service.dialect", "service.run"]):
    from service.dialect.harmony import vocabulary
    from service.dialect.harmony.splitter import HarmonySplitter
    from service.wire.stream_rules import check_stream
    from tests.conformance.vectors import load_vectors, tokens_of
    from tests.streams import play, with_joined_deltas

FOLDER = Path(__file__).parents[2] / ".build" / "fuzz"
MAX_TOKENS = 400
ENDS = ("stop", "length", "fault")
WORDS = ("assistant", "analysis", "commentary", "final", " to=", "functions.", "json", "code", " ", "to=")
_TOKEN_BYTES = 3
_ENDS_CHUNK = 1 << 23


def test_one_input(data: bytes) -> None:
    """Play one input; an assertion that fails is a finding."""
    chunks: list[list[int]] = [[]]
    for at in range(1, min(len(data), MAX_TOKENS * _TOKEN_BYTES) - _TOKEN_BYTES + 1, _TOKEN_BYTES):
        word = int.from_bytes(data[at : at + _TOKEN_BYTES], "little")
        chunks[-1].append(word & (_ENDS_CHUNK - 1))
        if word & _ENDS_CHUNK:
            chunks.append([])
    end = ENDS[data[0] % len(ENDS)] if data else "stop"
    chunked = play(HarmonySplitter(), chunks, end=end)
    one_by_one = play(HarmonySplitter(), [[token] for chunk in chunks for token in chunk], end=end)
    assert check_stream(chunked) == []
    assert check_stream(one_by_one) == []
    assert with_joined_deltas(chunked) == with_joined_deltas(one_by_one)


def written(tokens: list[int]) -> bytes:
    """An input of these tokens."""
    return b"".join(token.to_bytes(_TOKEN_BYTES, "little") for token in tokens if token < _ENDS_CHUNK)


def prepare() -> list[str]:
    """Write corpus and dictionary; return the fuzzer's arguments for them."""
    corpus = FOLDER / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for i, (name, vector) in enumerate(load_vectors().items()):
        (corpus / name).write_bytes(bytes([i % len(ENDS)]) + written(tokens_of(vector)))
    control = range(vocabulary.FIRST_SPECIAL, vocabulary.CALL + 2)
    words = [*([token] for token in control), *map(vocabulary.encode, WORDS)]
    lines = ("".join(f"\\x{byte:02x}" for byte in written(word)) for word in words)
    dictionary = FOLDER / "dictionary"
    dictionary.write_text("".join(f'"{line}"\n' for line in lines))
    return [str(corpus), f"-dict={dictionary}", f"-artifact_prefix={FOLDER}/", "-timeout=10", "-max_len=600"]


if __name__ == "__main__":
    atheris.Setup([*sys.argv, *prepare()], test_one_input)
    atheris.Fuzz()
