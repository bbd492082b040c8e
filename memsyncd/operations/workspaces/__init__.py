"""Add, find, list, sync and remove workspaces."""
