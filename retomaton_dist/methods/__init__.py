"""The methods that an evaluation compares: a file each, registered in `registry`."""
