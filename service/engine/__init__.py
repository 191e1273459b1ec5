"""Engines: what turns prompt tokens into output tokens. `base.py` is the contract."""
