"""File events from the operating system, and a report whenever some of them may be lost."""
