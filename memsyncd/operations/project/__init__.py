"""Summaries of a project's files in one note."""
