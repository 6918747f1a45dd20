"""The upgrade of connections, and the identify and ping protocols."""
