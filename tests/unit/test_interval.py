"""The rules at the top of `run/interval.py`."""

from hypothesis import given
from hypothesis import strategies as st

from service.run.interval import CALM_LOOKS, AdaptiveBounds, AdaptiveInterval

BOUNDS = AdaptiveBounds(min_tokens=2, max_tokens=48, max_lag_s=0.02)


def after(*lags: float) -> int:
    interval = AdaptiveInterval(BOUNDS)
    for lag in lags:
        interval.observe(lag)
    return interval.tokens


def test_lag_doubles_it_at_once_up_to_the_bound():
    assert after() == 2
    assert after(0.03) == 4
    assert after(0.03, 0.03, 0.03) == 16
    assert after(*[0.03] * 10) == 48


def test_calm_halves_it_slowly_down_to_the_bound():
    calm = [0.001] * CALM_LOOKS
    assert after(0.03, 0.03, *calm[1:]) == 8
    assert after(0.03, 0.03, *calm) == 4
    assert after(0.03, 0.03, *calm * 10) == 2


def test_a_little_lag_changes_nothing_and_is_no_calm():
    assert after(0.03, *[0.01] * 1000) == 4
    almost = [0.001] * (CALM_LOOKS - 1)
    assert after(0.03, *almost, 0.01, *almost) == 4


@given(st.lists(st.floats(0, 1), max_size=200))
def test_it_stays_between_the_bounds(lags):
    assert BOUNDS.min_tokens <= after(*lags) <= BOUNDS.max_tokens
