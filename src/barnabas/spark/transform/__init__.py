"""`barnabas pipeline transform`: a topic through SQL into a topic."""
