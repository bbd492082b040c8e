"""The only reader and writer of notes on disk: scope, confinement, scans, reads, writes."""
