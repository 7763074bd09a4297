"""What a walk did to a text: search-free runs, captured sequences, and overlap with the corpus."""
