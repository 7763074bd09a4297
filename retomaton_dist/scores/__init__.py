"""What methods see of a text: what the LM said of every token, and what each walk came to.

`Reading` is the LM's part, `Walked` a walk's, `Scores` both as they lie on disk. A `WalkSpec` says
which walk, a `Gate` where one that forgets may search.
"""
