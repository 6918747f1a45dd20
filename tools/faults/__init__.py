"""Faults between a node and its endpoints: a proxy that damages what passes, scenarios in TOML, and their verdicts."""
