"""Log bytes into records; stages, numbers, causes and stalls."""
