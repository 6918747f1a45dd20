"""Serves JSON-RPC, health, readiness and metrics."""
