"""What only the commands use: decoding files, listing batches, replaying, explaining drops."""
