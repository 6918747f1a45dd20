"""Serves recorded L1 data over HTTP as an L1 JSON-RPC endpoint and a Beacon API, to run the node on real blocks."""
