"""Harmony, the token format of gpt-oss: prompt rendering, vocabulary, splitter."""
