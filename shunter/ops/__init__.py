"""What an operator runs beside the daemon: a first config, checks, profiles of jobs."""
