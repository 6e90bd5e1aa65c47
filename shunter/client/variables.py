"""Which environment variables a job may be given, and which of a shell are not passed on unasked.

Functions that bash exports (Lmod's `module` is one) are variables of a name of their own.
"""

import re

VARIABLE = r"^([A-Za-z_][A-Za-z0-9_]*|BASH_FUNC_[^=\s\x00-\x1f]+(%%|\(\)))$"
"""The names that a submission may say."""

_NAME = re.compile(VARIABLE)
_OF_THE_SHELL = frozenset(("_", "OLDPWD", "PWD", "SHLVL", "TERM", "XDG_RUNTIME_DIR"))
"""They mean nothing elsewhere than in the shell they are of."""

_OF_ANOTHER_JOB = re.compile(
    r"(SHUNTER|SLURM|SLURMD|SBATCH|SRUN|PMI|PMIX|HIP|ROCR)_.*"
    r"|(CUDA|HIP|ROCR|NVIDIA|ZE|TPU)_(VISIBLE_DEVICES|VISIBLE_CHIPS|AFFINITY_MASK)"
    r"|GPU_DEVICE_ORDINAL"
)
"""They say which ranks and devices somebody else was given: a job is given its own."""


def is_name(name: str) -> bool:
    """Say whether a submission may name a variable so."""
    return _NAME.fullmatch(name) is not None


def is_passed_on(name: str) -> bool:
    """Say whether a job is given a variable that nobody named."""
    return (
        _NAME.match(name) is not None
        and name not in _OF_THE_SHELL
        and _OF_ANOTHER_JOB.fullmatch(name) is None
    )
