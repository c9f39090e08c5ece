"""`barnabas bench`: Barnabas compared with the machine's limits and with Apache Kafka."""
