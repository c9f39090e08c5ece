"""The read side of format("barnabas"): batch and streaming."""
