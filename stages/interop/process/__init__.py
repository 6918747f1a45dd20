"""The interop process: reads the chains' blocks, runs the rounds, and tells the chains what is verified."""
