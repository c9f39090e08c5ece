"""The faults of a simulation, and the safeguards they test."""
