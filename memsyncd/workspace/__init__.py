"""The only reader and writer of memory files: roots, confinement, scans, bytes, writing."""
