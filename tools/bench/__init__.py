"""Benchmarks: medians, ratios within one run, and the machine they were taken on. Never part of the tests."""
