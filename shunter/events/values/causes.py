"""Causes that the scheduler itself writes into facts, by which their class is known.

They stand in logs, so their values never change.
"""

from shunter.events.values.reasons import Because

BACKING_OFF = "backing_off"
"""Who holds a job that waits for its next try."""

ARRAY = "array"
"""Who holds a task that has no turn yet."""

CHECKPOINT = "checkpoint"
"""Who holds a job whose checkpoint is out of reach for now."""

LOST, GIVEN_UP = "lost", "given_up"
"""Why a checkpoint was discarded: a server of it is lost or gone, or its owner did not wait."""

DEPENDENCY = "dependency"
"""Why a job was cancelled whose dependency ended otherwise than it needs."""

TIMEOUT = "timeout"
"""Why a job failed that had held its GPUs as long as it may."""

NODE_LOST = Because("node_lost", (), ())
"""Why what was promised on a lost server is taken back."""

DISPLACED = Because("displaced", (), ())
"""Why a job loses GPUs that were found in the hands of others; with the job that has them now."""

HELD = Because("held", (), ())
"""Why a job leaves that somebody put on hold: the one decision that people make themselves."""
