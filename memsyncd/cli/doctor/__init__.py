"""`memsyncd doctor`: check the daemon, its files and the system, with a remedy for each finding."""
