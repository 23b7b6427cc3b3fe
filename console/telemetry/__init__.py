"""Probe frames into samples; staleness, history, thresholds and outliers."""
