"""GGUF models with weights that always say the same: one that speaks Harmony, with gpt-oss's vocabulary, and
others with a small vocabulary and a chat template of their own.

Each token that it knows has an embedding of its own, and the output weights answer it with the one that follows
it; attention and feed-forward add nothing. llama.cpp runs it like any model.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import gguf
import numpy as np

from service.dialect.harmony import vocabulary

VOCABULARY_SIZE = 201_088
WIDTH = 32
HEADS = 4
CONTEXT_TOKENS = 8192
_CERTAINTY = 50.0


def write_chain(path: Path, followers: Mapping[int, int]) -> Path:
    """Write a model that answers each token with its follower; it knows `WIDTH` tokens at most."""
    tokens, types = _harmony_tokens()
    return _write(path, followers, tokens, types, vocabulary.RETURN)


def write_family(path: Path, added: Mapping[str, gguf.TokenType], template: str) -> Path:
    """Write a model that ends its turn at once, with the bytes for a vocabulary, and what is added to them.

    The first that is added ends its turns, and is what it says after a line feed.
    """
    tokens = [*_byte_letters(), *added]
    types = [*[gguf.TokenType.NORMAL] * 256, *added.values()]
    return _write(path, {ord("\n"): 256}, tokens, types, 256, template)


def _write(
    path: Path,
    followers: Mapping[int, int],
    tokens: Sequence[str],
    types: Sequence[gguf.TokenType],
    end: int,
    template: str = "",
) -> Path:
    assert len(followers) <= WIDTH
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-4o")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(end)
    if template:
        writer.add_chat_template(template)
    embeddings = np.zeros((len(tokens), WIDTH), np.float16)
    output = np.zeros((len(tokens), WIDTH), np.float16)
    for i, (token, follower) in enumerate(followers.items()):
        embeddings[token, i] = 1
        output[follower, i] = _CERTAINTY
    nothing = np.zeros((WIDTH, WIDTH), np.float16)
    one = np.ones(WIDTH, np.float32)
    writer.add_tensor("token_embd.weight", embeddings)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", one)
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", one)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", nothing)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _harmony_tokens() -> tuple[list[str], list[gguf.TokenType]]:
    letters = _byte_letters()
    tokens = ["".join(letters[byte] for byte in token) for token in vocabulary.token_bytes()]
    types = [gguf.TokenType.NORMAL] * len(tokens)
    encoding = vocabulary.load_encoding()
    for token in range(len(tokens), VOCABULARY_SIZE):
        try:
            tokens.append(encoding.decode([token]))
        except Exception:
            tokens.append(f"<|reserved_{token}|>")
        types.append(gguf.TokenType.CONTROL)
    return tokens, types


def _byte_letters() -> list[str]:
    """GPT-2's letter for each byte: itself where it can be seen, else one from 256 on."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in seen]
    letters = {byte: chr(byte) for byte in seen} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [letters[byte] for byte in range(256)]
