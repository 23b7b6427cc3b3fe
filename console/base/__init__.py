"""Values that every floor shares: absence, errors, findings, clean text, masked secrets, time."""
