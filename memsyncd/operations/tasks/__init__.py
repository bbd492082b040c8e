"""Tasks and sessions of agents."""
