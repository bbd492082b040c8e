"""Search by meaning: its state, and making the missing vectors."""
