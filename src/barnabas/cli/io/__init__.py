"""`barnabas produce` and `barnabas consume`."""
