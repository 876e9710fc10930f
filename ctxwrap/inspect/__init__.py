"""Read-only queries on sessions: details, turns, packs, memory and cost."""

from ctxwrap.inspect.cost import Cost, Spent, Way, cost_of
from ctxwrap.inspect.memory import Curve, Point, counts_of, curves_of, details_of, memory_at, memory_of
from ctxwrap.inspect.sessions import (
    Branching,
    ChildInfo,
    Contents,
    Listing,
    SessionDetails,
    SessionInfo,
    SessionTotals,
    all_sessions,
    session_details,
    sessions_of,
    totals_of,
)
from ctxwrap.inspect.streams import Numbered, StreamFollower
from ctxwrap.inspect.turns import TurnDetails, TurnInfo, TurnPage, pack_of, turn_details, turns_before, turns_of

__all__ = [
    "Branching",
    "ChildInfo",
    "Contents",
    "Cost",
    "Curve",
    "Listing",
    "Numbered",
    "Point",
    "SessionDetails",
    "SessionInfo",
    "SessionTotals",
    "Spent",
    "StreamFollower",
    "TurnDetails",
    "TurnInfo",
    "TurnPage",
    "Way",
    "all_sessions",
    "cost_of",
    "counts_of",
    "curves_of",
    "details_of",
    "memory_at",
    "memory_of",
    "pack_of",
    "session_details",
    "sessions_of",
    "totals_of",
    "turn_details",
    "turns_before",
    "turns_of",
]
