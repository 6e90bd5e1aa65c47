"""Check that a training script resumes exactly: suspend it everywhere, compare every bit.

    python -m shunter.train.check train.py --with --its arguments

It runs the script to its end twice, which has to be the same. Then it suspends it at each kind of
boundary, and at some drawn by chance, has a new process go on, and compares what the script trained
with after each mini-batch. That is what the script and its adapter give `train.start` as parts, and
what it shows here; outside a check these functions do nothing::

    from shunter.train import check

    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=check.workers(0))
    ...
    check.saw(epoch, batch=x, loss=loss, model=model, optimizer=optimizer)
    run.step()

At last it cuts a checkpoint in half, takes a part of one away, and resumes one as one of two ranks:
none of that may be trained on with in silence.
"""

from shunter.train.check.showing import begins, evaluating, saw, workers

__all__ = ["begins", "evaluating", "saw", "workers"]
