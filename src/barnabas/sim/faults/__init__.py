"""Fault injection: random faults, and scripted faults for one safeguard each."""
