"""The lab: its parts, and boots over real SSH."""
