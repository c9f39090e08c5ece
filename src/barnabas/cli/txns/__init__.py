"""Transactions on the command line: `barnabas txns`."""
