"""Manages the set of connected peers; the protocols that map ports for them: NAT-PMP and UPnP."""
