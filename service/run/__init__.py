"""One response, from its first event to its last: engine, flush, splitter, builder."""
