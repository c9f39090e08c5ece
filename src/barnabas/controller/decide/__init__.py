"""The controller's decisions: pure functions of the context."""
