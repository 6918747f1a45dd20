"""The stateless workers of the CPU-heavy tasks."""
