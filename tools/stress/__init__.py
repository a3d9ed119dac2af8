"""The long run: every fault, fuzz and race that the package must survive, with counts."""
