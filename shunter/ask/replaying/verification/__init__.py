"""Deciding a recorded run once more, and comparing all that follows from its inputs."""
