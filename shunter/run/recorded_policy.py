"""The policy of a log, built as it was when it decided.

Apart from `setup`, so that who asks a log does not load what simulates.
"""

from shunter.config import recorded_runtime
from shunter.core import AnyPolicy
from shunter.core.planning import RoundRules, is_our_own
from shunter.errors import UsageError
from shunter.events import SchedulerStarted


def rebuild(started: SchedulerStarted) -> tuple[AnyPolicy, RoundRules]:
    """Return the policy and the rules with which a log was written.

    Raises:
        ConfigError: the recorded config cannot be read, or the policy is not installed.
    """
    runtime = recorded_runtime(started.config)
    return runtime.policy, runtime.rules


def rebuild_our_own(started: SchedulerStarted) -> tuple[AnyPolicy, RoundRules]:
    """Return the policy and the rules of a log, if the policy is no plugin.

    Raises:
        UsageError: the policy is not one of ours throughout.
        ConfigError: as `rebuild` does.
    """
    policy, rules = rebuild(started)
    if not is_our_own(policy):
        raise UsageError(
            f"policy {policy.name} is a plugin, which the daemon does not ask a second time; "
            "`shunter why JOB --log URL` does"
        )
    return policy, rules
