"""The cache keeps what was used last, within its limit of memory."""

from hypothesis import given
from hypothesis import strategies as st

from service.lru_cache import LruCache


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12))))
def test_what_is_kept_stays_within_its_limit_and_is_the_latest(puts):
    cache = LruCache[str, int](max_bytes=20)
    expected: dict[str, int] = {}
    for key, size in puts:
        cache.put(key, size, size)
        expected.pop(key, None)
        expected[key] = size
        while sum(expected.values()) > 20:
            expected.pop(next(iter(expected)))
        assert cache.kept_bytes == sum(expected.values())
        assert {k: cache.get(k) for k in list(expected)} == expected
        assert all(cache.get(k) is None for k in "abcdef" if k not in expected)


def test_what_is_used_stays():
    cache = LruCache[str, int](max_bytes=2)
    cache.put("a", 1, 1)
    cache.put("b", 2, 1)
    cache.get("a")
    cache.put("c", 3, 1)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
