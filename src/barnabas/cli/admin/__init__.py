"""`barnabas configs`, `elect` and `controller`."""
