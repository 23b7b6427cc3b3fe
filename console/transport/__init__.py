"""Bytes to and from nodes."""
