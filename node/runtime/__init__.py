"""The code that runs around the stage in every process."""
