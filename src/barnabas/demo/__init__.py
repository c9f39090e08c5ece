"""`barnabas demo`: three brokers, Spark, a killed broker, and the proof."""
