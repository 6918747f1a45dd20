"""What the processes of a node measure."""
