"""`barnabas topics`."""
