"""What conformance tests are made of: cases, notations for frames and batches, L1 chains, and runs of the deriver."""
