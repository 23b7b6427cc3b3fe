"""Engine logs."""
