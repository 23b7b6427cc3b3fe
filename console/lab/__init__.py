"""A simulated cluster that speaks real SSH: for a first look, for demonstrations, for tests."""
