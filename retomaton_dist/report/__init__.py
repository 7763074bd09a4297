"""From the results of an evaluation to pages: templates and data.

In order: what is read (`folder`, `rows`), how things are called (`names`), how a page is rendered
(`render`, templates/), what is read off the curves (`headline`, `tables`), figures (`drawing`,
`curve_figures`, `figures`), all that the report says (`data`), and the report itself (`write`).
"""
