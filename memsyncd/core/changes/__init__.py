"""Decide when to scan and what has changed: debounce, diff, plan of watches."""
