"""The doctor: what is wrong in an installation or a cluster, and what to do about it."""
