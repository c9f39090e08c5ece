"""`barnabas pipeline audit`: a comparison of replicas and archives on disk."""
