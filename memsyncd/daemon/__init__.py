"""The composition root: configuration becomes objects, objects run until somebody says stop."""

from memsyncd.daemon.process import run

__all__ = ["run"]
