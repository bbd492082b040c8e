"""The answers that agents got from hooks and tools: `memsyncd log agents`."""
