"""What the engine core may ask for, and the answers: engine, conductor, follow source, other processes."""
