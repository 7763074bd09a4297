"""What a build would take, found out before anything is written."""
