"""The fork table, the order of forks, and upgrade transactions as data."""
