"""Where recorded and replayed decisions part, and all that a reader needs to find out why."""
