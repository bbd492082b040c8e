"""The changes of notes: list, show, undo and erase them."""
