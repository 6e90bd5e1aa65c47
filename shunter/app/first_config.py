"""What every config that `shunter init` writes has in common, whatever the cluster."""

__all__ = ["LOG", "OPEN_BASE", "POLICY"]

OPEN_BASE = "/var/lib/shunter"
"""The scheduler's folder where root logs in, whose home is closed to the users of jobs."""

POLICY = """\
[policy]
name = "tiresias"                 # or fifo, las, srtf, gavel: `shunter policy list`
trigger = "event"                 # decide at once; "round" decides every policy.round
[policy.guards]
min_runtime = "1m"                # nobody is preempted before that
"""

LOG = """\
[server]
listen = "unix:"                  # the usual socket; clients find it by themselves
# admins = ["ana"]                # besides root and whoever runs the daemon

[log]
url = "shunter.db"                # everything that happens, for ever
"""
