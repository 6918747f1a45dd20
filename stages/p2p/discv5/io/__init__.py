"""The UDP socket and the node file of discovery."""
