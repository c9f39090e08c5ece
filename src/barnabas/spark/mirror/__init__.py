"""`barnabas pipeline mirror`: topics copied to another cluster."""
