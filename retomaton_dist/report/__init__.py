"""From the results of an evaluation to pages: figures, Markdown and HTML."""
