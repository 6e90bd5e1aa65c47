"""Moves of running jobs: who would better be elsewhere, tried, measured and undone."""

from shunter.policies.migration.making_room import MakeRoomParams, MakingRoom
from shunter.policies.migration.planner import GOALS, Goal, GoalSettings, Migrations, Sites, Wanted

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
