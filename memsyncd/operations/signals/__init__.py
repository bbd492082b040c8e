"""Signals between agents."""
