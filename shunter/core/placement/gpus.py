"""Which GPUs of one server: the nearest ones, and those that leave the best rest.

The levels of a configuration set are groups of GPUs, nearest first (NVLink, switch, socket). A
request is met on the first level where one group has enough free GPUs, from the group with the
fewest free ones; only then over several groups (Xiao, SOSP-SRC 2017; the choice of the fullest
group is ours). A level that is not described divides nothing: its groups are those of the next one
that is, and beyond the last one there is one group, the server. NVLink alone is not so: GPUs that
are not said to be joined are not. Its groups may lie across switches and sockets, so these decide
among them and within each.
"""

from collections.abc import Callable
from functools import lru_cache

from shunter.events.values.configuration_set import ConfigurationSet, LevelGroups
from shunter.events.values.job_spec import LEVEL_ORDER, Level

_NVLINK = Level.nvlink  # members are slow to look up


def pick_gpus(
    where: ConfigurationSet, free: int, count: int, max_level: Level | None = None
) -> int:
    """Return the mask of `count` free GPUs, or 0 if none are near enough together."""
    if not where.levels or (max_level is _NVLINK and not where.joined):
        return _unjoined(free, count, max_level)
    return _pick(where.levels, free, count, max_level)


def pick_emptiest(
    where: ConfigurationSet, free: int, count: int, max_level: Level | None = None
) -> int:
    """Return the mask of the nearest `count` free GPUs, with the fewest neighbours.

    Of groups that have enough the freest is taken, and of those that are equally free one where
    the groups around it are; else it is as with `pick_gpus`.
    """
    if not where.levels or (max_level is _NVLINK and not where.joined):
        return _unjoined(free, count, max_level)
    return _pick_emptiest(where.levels, free, count, max_level)


def is_within(where: ConfigurationSet, mask: int, max_level: Level) -> bool:
    """Say whether some GPUs of a server are as near together as a level of it."""
    return any(mask & ~group == 0 for group in groups_within(where, max_level))


def groups_within(where: ConfigurationSet, max_level: Level | None) -> tuple[int, ...]:
    """Return the groups within one of which GPUs of a server must be."""
    found: tuple[int, ...] = ((1 << where.gpus) - 1,)
    if max_level is None:
        return found
    if max_level is _NVLINK:
        return where.joined or tuple(1 << gpu for gpu in range(where.gpus))
    for groups in where.bus_levels:
        if LEVEL_ORDER[groups.level] >= LEVEL_ORDER[max_level]:
            found = groups.masks
            break
    across = [mask for mask in where.joined if all(mask & ~group for group in found)]
    return (*found, *across)


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


_Pick = Callable[[tuple[LevelGroups, ...], int, int, Level | None], int]


def _unjoined(free: int, count: int, max_level: Level | None) -> int:
    """Return the lowest GPUs of a server where none are joined, or not said to be."""
    return 0 if max_level is _NVLINK and count > 1 else lowest_bits(free, count)


def _pick_joined(
    pick: _Pick, levels: tuple[LevelGroups, ...], free: int, count: int, max_level: Level | None
) -> int:
    """Return GPUs of one joined group, else what `pick` finds around these.

    A gang is packed where the fewest of a group are left, and put apart where the fewest others are
    near; whichever comes first, the other one decides among equals.
    """
    joined, *rest = levels
    around = tuple(rest)
    found = []
    for group in joined.masks:
        left = (group & free).bit_count()
        if left >= count:
            mask = pick(around, group & free, count, None)
            others = [_taken_near(each.masks, mask, free) for each in around]
            packed = (left, *(-taken for taken in others), mask)
            found.append((packed if pick is _pick else (*others, left, mask), mask))
    if found:
        return min(found)[1]
    if max_level is _NVLINK:
        return 0
    if around:
        return pick(around, free, count, max_level)
    return _over_groups(joined.masks, free, count)


def _taken_near(masks: tuple[int, ...], mask: int, free: int) -> int:
    """Return how many GPUs are taken in the groups of a level that some GPUs are in."""
    return sum((group & ~free).bit_count() for group in masks if group & mask)


@lru_cache(maxsize=1 << 16)
def _pick_emptiest(
    levels: tuple[LevelGroups, ...], free: int, count: int, max_level: Level | None
) -> int:
    if not levels:
        return lowest_bits(free, count)
    if levels[0].level is _NVLINK:
        return _pick_joined(_pick_emptiest, levels, free, count, max_level)
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
    if not levels:
        return lowest_bits(free, count)
    if levels[0].level is _NVLINK:
        return _pick_joined(_pick, levels, free, count, max_level)
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
