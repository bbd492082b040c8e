"""The thinking of memsyncd: values in, values out. No clock, disk, socket, database, log or random number."""
