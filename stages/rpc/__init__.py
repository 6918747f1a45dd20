"""Answers JSON-RPC, health, readiness and metrics."""
