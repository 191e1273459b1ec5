"""Dialects: how a model family writes prompts and turns. `base.py` is the contract."""
