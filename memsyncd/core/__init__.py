"""Decide what to do, as pure code: no clock, disk, socket, database, log or random number."""
