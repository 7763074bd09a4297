"""What methods see of a text: what the LM said of every token, and what each walk came to.

`Reading` is the LM's part, `Walked` a walk's, `Scores` both as they lie on disk; `Seen` is what
mixing reads besides a walk, on disk or in memory. A `WalkSpec` says which walk, a `Gate` where one
that forgets may search.
"""
