"""What the supervisor and its processes share: process table, log pipes, runtime directory, exit codes."""
