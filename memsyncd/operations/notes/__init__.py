"""Write, edit and undo notes."""
