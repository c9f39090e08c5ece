"""`barnabas groups`."""
