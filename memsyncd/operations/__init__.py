"""One folder a capability: its declaration, what it does, and how it is shown."""
