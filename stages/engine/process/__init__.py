"""The engine process: its loop, and its channels to the other processes."""
