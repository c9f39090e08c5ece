"""The controller: its election, the states of partitions and replicas, channels to brokers."""
