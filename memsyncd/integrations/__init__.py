"""Adapters for other programs. Each module imports the library of one program."""
