"""Wire format: message encoding, ZeroMQ sockets and process ids."""
