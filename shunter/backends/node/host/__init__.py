"""What an agent is asked about its host, beside attempts: users, files, GPUs and their wiring."""

__all__ = ()
