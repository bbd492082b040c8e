"""The only reader of memory files: roots, confinement, scans, bytes."""
