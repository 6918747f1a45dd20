"""What is kept of peers between connections and restarts."""
