"""Append the results of a step of a run."""
