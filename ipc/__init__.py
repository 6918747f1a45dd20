"""Messages between processes: bus, wire format and shared memory. Knows nothing of rollups."""
