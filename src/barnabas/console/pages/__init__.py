"""The pages of the console, one module each."""
