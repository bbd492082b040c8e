"""What in a note should not be passed on as it is: secrets, and text that instructs its reader."""
