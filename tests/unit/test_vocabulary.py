"""The vocabulary: loaded offline, checked, and the same for both tokenizers."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.dialect.harmony import vocabulary
from tests.processes import ROOT

RANKS = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
LOAD = "from service.dialect.harmony.vocabulary import load_encoding; print(load_encoding().encode('hi'))"


def load(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {**environment, "PATH": os.environ["PATH"], "https_proxy": "http://127.0.0.1:9"}
    return subprocess.run(
        [sys.executable, "-c", LOAD], env=environment, cwd=ROOT, capture_output=True, text=True
    )


def cached(base: Path) -> Path:
    return base / "openresponses" / "o200k_base.tiktoken"


def test_it_loads_without_a_network_and_keeps_the_ranks(tmp_path):
    assert load({"XDG_CACHE_HOME": str(tmp_path)}).stdout == "[3686]\n"
    assert hashlib.sha256(cached(tmp_path).read_bytes()).hexdigest() == RANKS


def test_a_broken_cache_is_made_anew(tmp_path):
    cached(tmp_path).parent.mkdir()
    cached(tmp_path).write_bytes(b"broken")
    assert load({"XDG_CACHE_HOME": str(tmp_path)}).stdout == "[3686]\n"
    assert hashlib.sha256(cached(tmp_path).read_bytes()).hexdigest() == RANKS


def test_it_loads_where_nothing_can_be_kept(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    assert load({"XDG_CACHE_HOME": str(occupied)}).stdout == "[3686]\n"


def test_a_folder_without_the_ranks_is_named(tmp_path):
    done = load({"XDG_CACHE_HOME": str(tmp_path), "TIKTOKEN_ENCODINGS_BASE": str(tmp_path)})
    assert done.returncode == 1
    assert "TIKTOKEN_ENCODINGS_BASE must name a folder that holds o200k_base.tiktoken" in done.stderr


def test_the_control_tokens_are_those_of_harmony():
    markers = {
        "<|endoftext|>": vocabulary.END_OF_TEXT,
        "<|return|>": vocabulary.RETURN,
        "<|constrain|>": vocabulary.CONSTRAIN,
        "<|channel|>": vocabulary.CHANNEL,
        "<|start|>": vocabulary.START,
        "<|end|>": vocabulary.END,
        "<|message|>": vocabulary.MESSAGE,
        "<|call|>": vocabulary.CALL,
    }
    encoding = vocabulary.load_encoding()
    for marker, token in markers.items():
        assert encoding.encode(marker, allowed_special="all") == [token]
    assert len(vocabulary.token_bytes()) == vocabulary.FIRST_SPECIAL


TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(
        ["<|start|>", "<|end|>", " the", "\n\n", "    ", "don't", "字字", "🎉", "1234567", "\r\n"]
    )
).map("".join)


@given(TEXTS)
def test_both_tokenizers_agree(text):
    assert vocabulary.encode(text) == vocabulary.load_encoding().encode(text, disallowed_special=())


@given(TEXTS)
def test_tokens_are_counted_as_they_are_made(text):
    assert vocabulary.count(text) == len(vocabulary.encode(text))


@given(TEXTS)
def test_the_bytes_of_a_text_are_those_of_its_tokens(text):
    table = vocabulary.token_bytes()
    assert b"".join(table[token] for token in vocabulary.encode(text)).decode() == text


@pytest.mark.parametrize("word", ["a" * 1_000_000, "\n" * 1_000_000, "字" * 300_000])
def test_a_long_word_is_no_trouble(word):
    """openai-harmony's own tokenizer takes minutes over these, or gives up."""
    table = vocabulary.token_bytes()
    assert b"".join(table[token] for token in vocabulary.encode(word)).decode() == word
