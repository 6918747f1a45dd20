"""What goes over a socket: message encoding, ZeroMQ sockets with their rules, and the identity of processes."""
