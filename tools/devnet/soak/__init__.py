"""`tools/chaos soak`: random kills, stops, faults, reorgs, leaves and joins over several nodes for hours."""
