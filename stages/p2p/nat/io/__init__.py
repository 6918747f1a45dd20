"""Port mapping with real routers."""
