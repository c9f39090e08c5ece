"""`barnabas cluster`: several brokers on this machine."""
