"""`barnabas pipeline transform`: SQL from one topic to another."""
