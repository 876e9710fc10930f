"""How models really write the state that they are asked for: a function of the request for each habit."""

from ctxwrap.testing.practice.habits import HABITS, Habit, habit_of
from ctxwrap.testing.practice.moment import ReplyParts

__all__ = ["HABITS", "Habit", "ReplyParts", "habit_of"]
