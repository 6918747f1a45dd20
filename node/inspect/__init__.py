"""Code for the commands alone: decoding files, listing batches, replaying, explaining drops."""
