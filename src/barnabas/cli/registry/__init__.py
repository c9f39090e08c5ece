"""`barnabas registry`: a schema registry with Confluent's REST API, kept in a topic."""
