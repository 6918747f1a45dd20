"""The sync protocol payload_by_number."""
