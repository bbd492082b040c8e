"""Links between notes."""
