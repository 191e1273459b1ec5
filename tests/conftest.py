"""Hypothesis profiles: `dev` is quick, `ci` looks harder and prints how to reproduce a failure."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "dev", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", parent=settings.get_profile("dev"), max_examples=200, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
