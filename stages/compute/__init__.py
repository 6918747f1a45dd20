"""Stateless workers that run the CPU-heavy tasks."""
