"""Notifications of changed indexes."""
