"""Which GPUs of one server: the nearest ones, and those that leave the best rest.

The levels of a configuration set are groups of GPUs, nearest first (switch, socket). A request is
met on the first level where one group has enough free GPUs, from the group with the fewest free
ones; only then over several groups (Xiao, SOSP-SRC 2017; the choice of the fullest group is ours).
A level that is not described divides nothing: its groups are those of the next one that is, and
beyond the last one there is one group, the server.
"""

from functools import lru_cache

from shunter.events.values.configuration_set import ConfigurationSet, LevelGroups
from shunter.events.values.job_spec import LEVEL_ORDER, Level


def pick_gpus(
    where: ConfigurationSet, free: int, count: int, max_level: Level | None = None
) -> int:
    """Return the mask of `count` free GPUs, or 0 if none are near enough together."""
    if not where.levels:
        return lowest_bits(free, count)
    return _pick(where.levels, free, count, max_level)


def pick_emptiest(
    where: ConfigurationSet, free: int, count: int, max_level: Level | None = None
) -> int:
    """Return the mask of the nearest `count` free GPUs, with the fewest neighbours.

    Of groups that have enough the freest is taken, and of those that are equally free one where
    the groups around it are; else it is as with `pick_gpus`.
    """
    if not where.levels:
        return lowest_bits(free, count)
    return _pick_emptiest(where.levels, free, count, max_level)


def is_within(where: ConfigurationSet, mask: int, max_level: Level) -> bool:
    """Say whether some GPUs of a server are as near together as a level of it."""
    return any(mask & ~group == 0 for group in groups_within(where, max_level))


def groups_within(where: ConfigurationSet, max_level: Level | None) -> tuple[int, ...]:
    """Return the groups within one of which GPUs of a server must be."""
    if max_level is not None:
        for groups in where.levels:
            if LEVEL_ORDER[groups.level] >= LEVEL_ORDER[max_level]:
                return groups.masks
    return ((1 << where.gpus) - 1,)


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
def _pick_emptiest(
    levels: tuple[LevelGroups, ...], free: int, count: int, max_level: Level | None
) -> int:
    bound = len(LEVEL_ORDER) if max_level is None else LEVEL_ORDER[max_level]
    for at, groups in enumerate(levels):
        fitting = [mask for mask in groups.masks if (mask & free).bit_count() >= count]
        if fitting:
            around = levels[at:]

            def emptiness(mask: int, around: tuple[LevelGroups, ...] = around) -> tuple[int, ...]:
                return tuple(
                    -(outer & free).bit_count()
                    for each in around
                    for outer in each.masks
                    if mask & ~outer == 0
                )

            chosen = min(fitting, key=lambda mask: (emptiness(mask), mask))
            return lowest_bits(chosen & free, count)
        if LEVEL_ORDER[groups.level] >= bound:
            return 0
    return _over_groups(levels[0].masks, free, count)


@lru_cache(maxsize=1 << 16)
def _pick(levels: tuple[LevelGroups, ...], free: int, count: int, max_level: Level | None) -> int:
    bound = len(LEVEL_ORDER) if max_level is None else LEVEL_ORDER[max_level]
    for groups in levels:
        fitting = [m for m in groups.masks if (m & free).bit_count() >= count]
        if fitting:
            chosen = min(fitting, key=lambda mask: ((mask & free).bit_count(), mask))
            return lowest_bits(chosen & free, count)
        if LEVEL_ORDER[groups.level] >= bound:
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
