"""The controller's event handlers: decide, write, apply, send."""
