"""Decides who leads every partition: election, states, events, channels to the brokers."""
