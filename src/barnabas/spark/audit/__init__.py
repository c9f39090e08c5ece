"""`barnabas pipeline audit`: replicas and archives compared."""
