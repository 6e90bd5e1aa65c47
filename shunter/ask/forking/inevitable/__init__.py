"""The last decision found at which a job, placed first, is spared what happened to it."""
