"""`barnabas pipeline replay`: an archive back into a topic."""
