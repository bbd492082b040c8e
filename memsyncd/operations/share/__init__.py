"""One memory on several machines, by git."""
