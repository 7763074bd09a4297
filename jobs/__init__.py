"""What a cluster runs: one thin file per job, for `ray job submit`."""
