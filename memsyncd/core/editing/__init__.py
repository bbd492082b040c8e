"""Compute a note's bytes after an edit. `workspace` and `engine` write them."""
