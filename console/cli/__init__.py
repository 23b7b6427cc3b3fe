"""Every action as a command, with JSON for scripts."""
