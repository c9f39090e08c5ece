"""`barnabas pipeline mirror`: topics of one cluster in another."""
