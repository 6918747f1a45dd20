"""Library of the conformance tests: the case table, notations for frames and batches, L1 chains, and harnesses."""
