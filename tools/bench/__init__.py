"""Benchmarks. They print medians, ratios taken within one run, and the machine; no test runs them to measure."""
