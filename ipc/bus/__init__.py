"""The bus: request, status and work channels between processes."""
