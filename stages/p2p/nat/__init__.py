"""Port mapping protocols: NAT-PMP and UPnP."""
