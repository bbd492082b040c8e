"""Runs the daemon: objects are made from the configuration and run until it is stopped."""

from memsyncd.daemon.main import run

__all__ = ["run"]
