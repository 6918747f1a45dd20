"""The bus: request, status and work channels between processes, and the pump that moves their messages."""
