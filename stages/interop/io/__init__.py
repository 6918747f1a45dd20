"""The interop database: logs, verified rounds, denied blocks and the transition that is being carried out."""
