"""What the operating system tells: events as doorbells, failures as a call to look again."""
