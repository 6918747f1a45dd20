"""What supervisor and processes share: process table, log pipes, runtime directory, exit codes."""
