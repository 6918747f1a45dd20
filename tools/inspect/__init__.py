"""Code that only commands use: it decodes files, lists batches, replays L1 and explains drops."""
