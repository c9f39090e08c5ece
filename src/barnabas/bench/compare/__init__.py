"""`barnabas bench compare`: Barnabas beside Apache Kafka."""
