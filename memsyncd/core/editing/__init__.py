"""Compute a note's bytes after an edit. `files` and `engine` write them."""
