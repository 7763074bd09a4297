"""The demo: everything, end to end, on text that every Python installation has."""
