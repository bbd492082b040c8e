"""The state of the daemon and of its workspaces."""
