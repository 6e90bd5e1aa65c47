"""What an operator runs besides the daemon: a first config, checks, profiles of jobs."""
