"""`barnabas server`: one broker in this process."""
