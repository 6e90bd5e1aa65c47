"""Checkpoints that go with a job from host to host: lists of files, and their copies."""

__all__ = ()
