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

STAYS = "checkpoint_stays"
"""Who holds a job whose checkpoint is too large to be copied, until its server has room."""

LOST, GIVEN_UP = "lost", "given_up"
"""Why a checkpoint was discarded: a server of it is lost or gone, or its owner did not wait."""

DEPENDENCY = "dependency"
"""Why a job was cancelled whose dependency ended otherwise than it needs."""

TIMEOUT = "timeout"
"""Why a job failed that had held its GPUs as long as it may."""

EXITED = "exit"
"""Why a job failed whose processes ended by themselves, or were killed by others than us."""

NODE_LOST = Because("node_lost", (), ())
"""Why what was promised on a lost server is taken back."""

DISPLACED = Because("displaced", (), ())
"""Why a job loses GPUs that were found in the hands of others; with the job that has them now."""

BY_POLICY = ":policy"
"""Who gives a job another size in a plan; no person's name begins so."""

GROWS, SHRINKS, STARTS_SMALLER = "grow_into_idle", "shrink_for", "start_smaller"
"""Rules by which plans give jobs other sizes; the scores are the GPUs before and after."""

RESIZED = Because("resized", (), ())
"""Why a job leaves whose owner wants its gang to have another size."""

HELD = Because("held", (), ())
"""Why a job leaves that somebody put on hold: the one decision that people make themselves."""

CALLER = "caller"
"""Whose proposal it is where no scheduler of ours made it, but somebody who called the daemon."""

REPEATED = "repeated"
"""Why a refusal stands for more than one proposal of a job in a round."""

PROPOSED = Because("proposed", (), ())
"""Why a job starts for which somebody else's scheduler proposed a gang that was approved."""

HEIGHT_MOST = "height_most"
"""Detail of a wait: the servers on which a job could take turns are as high as they may be."""
