"""Passages in slots: neighbours next to each other, with gaps between blocks, so that a column is one flat array."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ctxwrap.retrieval.index import Index
from ctxwrap.retrieval.passages import TextFeature

Ints = NDArray[Any]

REACH = 4
"""How many passages count as neighbours on each side; as many empty slots precede each block."""

ANSWERS, OPENS = 256, 512
"""Marks of a passage, besides its text features: the one before it asks; it is the first of its group."""

GAP = ANSWERS | OPENS
"""The marks of an empty slot; no passage has both."""

_SHORT_ANSWER = 3
"""Terms up to which an answer says little without its question."""

_KINDS = (np.intp, np.intp, np.intp, np.float32, np.intp, np.intp, np.intp, np.intp)
"""Of the columns of a layout, those with which they are computed."""

_FEATURES, _QUESTION, _ASKS = 255, int(TextFeature.QUESTION), int(TextFeature.ASKS)


class Layout(NamedTuple):
    """Blocks of passages, each within one group."""

    passages: int
    """How many there are."""
    slots: Ints
    """The slot of each place of the index; 0 for passages that are left out."""
    places: Ints
    """The place of each slot; 0 for empty slots."""
    marks: Ints
    """The text features and marks of each slot."""
    lengths: Ints
    """The length of the passage in each slot."""
    groups: Ints
    """The first slot of each group, with the gap before it."""
    group_of: Ints
    """Which of these groups each slot belongs to."""
    asking: Ints
    """The slots of questions with an answer in the next slot."""
    leaning: Ints
    """Those whose answer says little without the question."""


class WholeLayout:
    """Lays out all passages of an index, each group as one block, and follows the index."""

    def __init__(self) -> None:
        self._passages = self._width = self._groups = self._asking = self._leaning = 0
        """How much of the columns is used."""
        self._columns = [np.zeros(64, kind) for kind in _KINDS]
        """In the order of `Layout`; what is entered never changes, so that earlier layouts stay valid."""

    def of(self, index: Index) -> Layout:
        for place in range(self._passages, len(index)):
            self._add(index, place)
        slots, places, marks, lengths, groups, group_of, asking, leaning = self._columns
        count, width = self._passages, self._width
        by_slot = places[:width], marks[:width], lengths[:width]
        pairs = asking[: self._asking], leaning[: self._leaning]
        return Layout(count, slots[:count], *by_slot, groups[: self._groups], group_of[:width], *pairs)

    def _add(self, index: Index, place: int) -> None:
        slot, group = self._width, self._groups
        if slot + REACH >= len(self._columns[0]):
            self._columns = [np.concatenate((column, np.zeros_like(column))) for column in self._columns]
        slots, places, marks, lengths, groups, group_of, asking, leaning = self._columns
        mark, length = index.features[place] & _FEATURES, index.lengths[place]
        if group < len(index.group_starts) and index.group_starts[group] == place:
            groups[group] = slot
            marks[slot : slot + REACH], group_of[slot : slot + REACH] = GAP, group
            slot, group = slot + REACH, group + 1
            mark |= OPENS
        elif (before := marks.item(slot - 1)) & _ASKS:
            mark |= ANSWERS
            if before & _QUESTION:
                asking[self._asking] = slot - 1
                self._asking += 1
                if length <= _SHORT_ANSWER:
                    leaning[self._leaning] = slot - 1
                    self._leaning += 1
        slots[place], places[slot], group_of[slot] = slot, place, group - 1
        marks[slot], lengths[slot] = mark, length
        self._passages, self._width, self._groups = place + 1, slot + 1, group


def lay_out(column: Callable[[str], Ints], starts: Ints, ends: Ints, groups: Ints) -> Layout:
    """Lay out blocks of passages, given the columns of the index, and their first places, ends and groups in order."""
    sizes, all_lengths = ends - starts, column("lengths")
    here, gaps = between(starts, ends), np.arange(REACH, REACH * len(sizes) + 1, REACH)
    used: Ints = np.arange(len(here)) + gaps.repeat(sizes)
    width = len(here) + REACH * len(sizes)
    slots, places = np.zeros(len(all_lengths), np.int32), np.zeros(width, np.intp)
    marks, lengths = np.full(width, GAP, np.intp), np.zeros(width, np.float32)
    slots[here], places[used] = used, here
    marks[used], lengths[used] = column("features")[here] & _FEATURES, all_lengths[here]
    asks = (marks[:-1] & _ASKS != 0) & (marks[1:] != GAP)
    asking = (asks & (marks[:-1] & _QUESTION != 0)).nonzero()[0]
    leaning = asking[lengths[asking + 1] <= _SHORT_ANSWER]
    marks[1:] |= asks * ANSWERS
    firsts = sizes.cumsum() - sizes + gaps
    marks[firsts[starts == column("group_starts")[groups]]] |= OPENS
    opens = first_of_each(groups)
    group_of = (opens.cumsum() - 1).repeat(sizes + REACH)
    return Layout(len(here), slots, places, marks, lengths, firsts[opens] - REACH, group_of, asking, leaning)


def first_of_each(values: Ints) -> Ints:
    """Return which of ascending values differ from the one before."""
    firsts: Ints = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=firsts[1:])
    return firsts


def between(starts: Ints, ends: Ints) -> Ints:
    """Return all integers from each start up to its end."""
    sizes = ends - starts
    upto = sizes.cumsum()
    found: Ints = (starts - upto + sizes).repeat(sizes)
    found += np.arange(len(found))
    return found
