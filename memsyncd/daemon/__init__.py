"""The daemon's process: it starts, runs and stops what the other rooms have."""
