"""A whole cluster of the unmodified broker in one process, in virtual time, from a seed."""
