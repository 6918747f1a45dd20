"""What runs inside every process around its stage."""
