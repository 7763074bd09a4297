"""`retomaton demo`: everything, end to end."""
