"""What transactions and blocks do to the state."""
