"""`barnabas reassign`."""
