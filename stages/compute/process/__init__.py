"""The compute worker process."""
