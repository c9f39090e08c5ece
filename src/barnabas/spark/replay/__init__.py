"""`barnabas pipeline replay`: an archive written back to a topic."""
