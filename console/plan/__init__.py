"""Recipe x cluster x facts: the exact commands, the memory budget, the findings before anything runs."""
