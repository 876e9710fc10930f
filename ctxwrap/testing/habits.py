"""The public path of `ctxwrap.testing.practice.habits`: models that write snapshots in their own ways."""

from ctxwrap.testing.practice.habits import HABITS, Habit, habit_of
from ctxwrap.testing.practice.replies import ReplyParts

__all__ = ["HABITS", "Habit", "ReplyParts", "habit_of"]
