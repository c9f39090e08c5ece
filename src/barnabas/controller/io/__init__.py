"""The controller's input and output: znodes it watches and writes, channels to the brokers."""
