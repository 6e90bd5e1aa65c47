"""Which GPUs of one server: the nearest ones, and those that leave the best rest.

The levels of a configuration set are groups of GPUs, nearest first (switch, socket). A request is
met on the first level where one group has enough free GPUs, from the group with the fewest free
ones; only then over several groups (Xiao, SOSP-SRC 2017; the choice of the fullest group is ours).
A level that is not described divides nothing: its groups are those of the next one that is, and
beyond the last one there is one group, the server.
"""

from functools import lru_cache

from shunter.events.values.configuration_set import ConfigurationSet, LevelGroups
from shunter.events.values.job_spec import Level

_ORDER = {level: number for number, level in enumerate(Level)}  # the nearest first


def pick_gpus(
    where: ConfigurationSet, free: int, count: int, max_level: Level | None = None
) -> int:
    """Return the mask of `count` free GPUs, or 0 if none are near enough together."""
    if not where.levels:
        return lowest_bits(free, count)
    return _pick(where.levels, free, count, max_level)


def is_within(where: ConfigurationSet, mask: int, max_level: Level) -> bool:
    """Say whether some GPUs of a server are as near together as a level of it."""
    for groups in where.levels:
        if _ORDER[groups.level] >= _ORDER[max_level]:
            return any(mask & ~group == 0 for group in groups.masks)
    return True


def lowest_bits(mask: int, count: int) -> int:
    """Return the `count` lowest bits set in a mask that has at least so many."""
    if count == 1:
        return mask & -mask
    if mask.bit_count() == count:
        return mask
    rest = mask
    for _ in range(count):
        rest &= rest - 1
    return mask ^ rest


@lru_cache(maxsize=1 << 16)
def _pick(levels: tuple[LevelGroups, ...], free: int, count: int, max_level: Level | None) -> int:
    bound = len(_ORDER) if max_level is None else _ORDER[max_level]
    for groups in levels:
        fitting = [m for m in groups.masks if (m & free).bit_count() >= count]
        if fitting:
            chosen = min(fitting, key=lambda mask: ((mask & free).bit_count(), mask))
            return lowest_bits(chosen & free, count)
        if _ORDER[groups.level] >= bound:
            return 0
    return _over_groups(levels[0].masks, free, count)


def _over_groups(masks: tuple[int, ...], free: int, count: int) -> int:
    """Take whole groups, the freest first, and fill up with the lowest GPUs left."""
    chosen = 0
    ordered = sorted(masks, key=lambda mask: (-(mask & free).bit_count(), mask))
    for mask in ordered:
        wanted = count - chosen.bit_count()
        here = mask & free
        chosen |= lowest_bits(here, min(wanted, here.bit_count()))
    loose = free & ~chosen
    return chosen | lowest_bits(loose, count - chosen.bit_count())
