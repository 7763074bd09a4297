"""From the user's text to documents: sources, how they fall into documents, units to read them."""
