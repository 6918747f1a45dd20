"""Port mapping on real gateways."""
