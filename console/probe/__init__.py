"""The programs that run on a node: read as text and sent there, never imported by the console."""
