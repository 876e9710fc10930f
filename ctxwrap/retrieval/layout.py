"""Passages in slots: neighbours next to each other, with gaps between blocks, so that a column is one flat array."""

from array import array
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

_FEATURES, _QUESTION, _ASKS = 255, int(TextFeature.QUESTION), int(TextFeature.ASKS)
_EMPTY_SLOTS = [0] * REACH
_GAP_SLOTS = [GAP] * REACH


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
    group_sizes: Ints
    """How many slots each group has."""
    asking: Ints
    """The slots of questions with an answer in the next slot."""
    leaning: Ints
    """Those whose answer says little without the question."""


class WholeLayout:
    """Lays out all passages of an index, each group as one block, and follows the index."""

    def __init__(self) -> None:
        self._slots, self._places = array("i"), array("i")
        self._marks, self._lengths = array("H"), array("B")
        self._groups, self._group_sizes = array("i"), array("i")
        self._asking, self._leaning = array("i"), array("i")

    def of(self, index: Index) -> Layout:
        for place in range(len(self._slots), len(index)):
            self._add(index, place)
        by_slot = self._places, self._marks, self._lengths
        groups, pairs = (self._groups, self._group_sizes), (self._asking, self._leaning)
        return Layout(len(self._slots), *map(np.array, (self._slots, *by_slot, *groups, *pairs)))

    def _add(self, index: Index, place: int) -> None:
        marks, length, group = index.features[place] & _FEATURES, index.lengths[place], len(self._groups)
        if group < len(index.group_starts) and index.group_starts[group] == place:
            self._groups.append(len(self._marks))
            self._group_sizes.append(REACH)
            self._places.extend(_EMPTY_SLOTS)
            self._lengths.extend(_EMPTY_SLOTS)
            self._marks.extend(_GAP_SLOTS)
            marks |= OPENS
        elif self._marks[-1] & _ASKS:
            marks |= ANSWERS
            if self._marks[-1] & _QUESTION:
                self._asking.append(len(self._marks) - 1)
                if length <= _SHORT_ANSWER:
                    self._leaning.append(len(self._marks) - 1)
        self._slots.append(len(self._marks))
        self._places.append(place)
        self._lengths.append(length)
        self._marks.append(marks)
        self._group_sizes[-1] += 1


def lay_out(column: Callable[[str], Ints], starts: Ints, ends: Ints, groups: Ints) -> Layout:
    """Lay out blocks of passages, given the columns of the index, and their first places, ends and groups in order."""
    sizes, all_lengths = ends - starts, column("lengths")
    here, gaps = between(starts, ends), np.arange(REACH, REACH * len(sizes) + 1, REACH)
    used: Ints = np.arange(len(here)) + gaps.repeat(sizes)
    width = len(here) + REACH * len(sizes)
    slots, places = np.zeros(len(all_lengths), np.int32), np.zeros(width, np.int32)
    marks, lengths = np.full(width, GAP, np.uint16), np.zeros(width, np.uint8)
    slots[here], places[used] = used, here
    marks[used], lengths[used] = column("features")[here] & _FEATURES, all_lengths[here]
    asks = (marks[:-1] & _ASKS != 0) & (marks[1:] != GAP)
    asking = (asks & (marks[:-1] & _QUESTION != 0)).nonzero()[0]
    leaning = asking[lengths[asking + 1] <= _SHORT_ANSWER]
    marks[1:] |= asks * np.uint16(ANSWERS)
    firsts = np.cumsum(sizes) - sizes + gaps
    marks[firsts[starts == column("group_starts")[groups]]] |= OPENS
    group_slots = firsts[np.append(True, groups[1:] != groups[:-1])[: len(groups)]] - REACH
    group_sizes = np.diff(group_slots, append=width)
    return Layout(len(here), slots, places, marks, lengths, group_slots, group_sizes, asking, leaning)


def between(starts: Ints, ends: Ints) -> Ints:
    """Return all integers from each start up to its end."""
    sizes = ends - starts
    upto = np.cumsum(sizes)
    return np.repeat(starts - upto + sizes, sizes) + np.arange(int(upto[-1]) if len(upto) else 0)
