"""The fault proxy at its sockets."""
