"""THE FORK TABLE, and upgrade transactions as data."""
