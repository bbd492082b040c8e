"""Save and restore a workspace's history."""
