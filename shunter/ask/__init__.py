"""Questions to a log: its state then, why a job waited, what differs, what if, how long still."""
