"""What changed, and when to look: debounce, snapshot, diff."""
