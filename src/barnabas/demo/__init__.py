"""`barnabas demo`: a cluster and Spark at work, a killed broker, and a proof from the data."""
