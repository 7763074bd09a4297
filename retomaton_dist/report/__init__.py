"""From the results of an evaluation to pages: figures, Markdown and HTML.

In order: what is read (`folder`, `rows`), what is read off it (`headline`), how things are called
(`names`) and drawn (`drawing`, `curve_figures`, `gain_figures`, `figures`), what a page is made of
(`page`, `tables`, `sections`, `gain_sections`), how it is put down (`html` with page.html,
`markdown`), and all (`write`).
"""
