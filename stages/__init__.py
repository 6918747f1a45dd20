"""The rollup protocol, and one folder per process in the order of the data flow."""
