"""Append what a step of a run produced."""
