"""Recall memories by keywords, topic and kind."""
