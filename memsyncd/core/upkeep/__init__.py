"""What a memory is worth as time passes, and what becomes of it then."""
