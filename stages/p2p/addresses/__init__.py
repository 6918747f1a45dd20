"""Peers: their ids, IP addresses and multiaddrs."""
