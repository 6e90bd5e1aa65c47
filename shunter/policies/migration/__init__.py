"""Moves of running jobs: who would better be elsewhere, tried, measured and undone."""

from shunter.policies.migration.goals import GOALS, Goal, GoalSettings, Wanted
from shunter.policies.migration.making_room import MakingRoom
from shunter.policies.migration.params import MakeRoomParams
from shunter.policies.migration.planner import Migrations, Sites

__all__ = [
    "GOALS",
    "Goal",
    "GoalSettings",
    "MakeRoomParams",
    "MakingRoom",
    "Migrations",
    "Sites",
    "Wanted",
]
