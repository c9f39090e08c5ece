"""The controller's input and output: its election, the znodes, channels to the brokers."""
