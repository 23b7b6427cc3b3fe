"""Benches: what a launch and a stop cost, beside the limits of the same machine."""
