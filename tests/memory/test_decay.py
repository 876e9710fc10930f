"""Decay: a closed form that nobody's looking changes, mentions that only ever help, and moves of one step."""

import json
import random
from dataclasses import fields
from itertools import pairwise
from math import ceil, inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.errors import SettingsError
from ctxwrap.memory.decay import (
    TierMove,
    advance,
    apply_mention,
    decay_at,
    demotion_point,
    half_life,
    move_to_swap,
    rehydrate,
    set_decay,
)
from ctxwrap.memory.items import LOCATIONS, ORIGINS, TIERS, MemoryItem, Mentions
from ctxwrap.settings import MemoryRules, PerTier, Settings, settings_from

RULES = MemoryRules()
NEVER = PerTier(inf, inf, inf)
OLD_RULES = MemoryRules(half_lives=PerTier(96, 24, 8), least_stay=PerTier(0, 0, 0), most_stay=NEVER)
"""Under which decay alone decides, in core as well: sessions of a time before the stays have them."""
GUIDE = (Path(__file__).parents[2] / "docs" / "memory.md").read_text()
TINY = 1e-12

shares = st.floats(0, 1)
evidences = st.floats(0.01, 1)
gaps = st.integers(0, 300)
tiers = st.sampled_from(TIERS)


@st.composite
def all_rules(draw: st.DrawFn) -> MemoryRules:
    short, middle, long = sorted(draw(st.tuples(*[st.floats(0.2, 500)] * 3)))
    low, mid, high = sorted(draw(st.tuples(*[st.floats(0.05, 0.95)] * 3)))
    return MemoryRules(
        half_lives=PerTier(long, middle, short),
        thresholds=PerTier(low, mid, high),
        growth=draw(shares),
        rehydrated=high / 2,
        least_stay=draw(st.sampled_from((RULES.least_stay, OLD_RULES.least_stay))),
        most_stay=draw(st.sampled_from((RULES.most_stay, OLD_RULES.most_stay))),
    )


rulebooks = st.just(RULES) | all_rules()


@st.composite
def all_items(draw: st.DrawFn, places: tuple[str, ...] = TIERS) -> MemoryItem:
    first = draw(st.integers(0, 50))
    last = first + draw(st.integers(0, 50))
    decay, anchor = draw(shares), last + draw(st.sampled_from((0.0, 0.25, 3.5)))
    return MemoryItem(
        id="ada-1",
        type="fact",
        content="Ada likes tea.",
        tags=("tea",),
        tier=draw(st.sampled_from(places)),  # type: ignore[arg-type]
        decay=decay,
        anchor=anchor,
        first=first,
        last=last,
        since=anchor,
        importance=decay,
        touches=draw(st.floats(1, 40)),
    )


items = all_items()


def item(**changes: Any) -> MemoryItem:
    fresh = MemoryItem(
        id="ada-1", type="fact", content="Ada likes tea.", tags=("tea",), tier="ephemeral", decay=0.0, anchor=0.0,
        first=0, last=0, since=0.0, importance=0.0,
    )  # fmt: skip
    return fresh._replace(**changes)


def decay_in(subject: MemoryItem, round: int, rules: MemoryRules = RULES) -> float:
    aged, _ = advance(subject, round, rules)
    return decay_at(aged, round, rules)


def height(subject: MemoryItem) -> int:
    return -LOCATIONS.index(subject.tier)


def first_round(subject: MemoryItem) -> int:
    """A round by which everything that happened to the item is past."""
    return ceil(subject.anchor)


class TestTheFormula:
    @pytest.mark.parametrize(
        ("tier", "after"),
        [
            ("core", {1: 0.0, 96: 0.0, 5000: 0.0}),
            ("working", {1: 0.0285, 8: 0.2063, 24: 0.5, 48: 0.75}),
            ("ephemeral", {1: 0.0830, 8: 0.5, 24: 0.875}),
        ],
    )
    def test_decay_after_some_rounds(self, tier: str, after: dict[int, float]) -> None:
        assert {r: round(decay_in(item(tier=tier), r), 4) for r in after} == after

    @pytest.mark.parametrize(
        ("tier", "after"),
        [
            ("core", {130: ("core", 0.0), 100_000: ("core", 0.0)}),
            ("working", {58: ("ephemeral", 0.8949), 96: ("swap", 0.9961)}),
            ("ephemeral", {23: ("ephemeral", 0.8637), 24: ("swap", 0.875)}),
        ],
    )
    def test_decay_across_demotions(self, tier: str, after: dict[int, tuple[str, float]]) -> None:
        seen = {r: (advance(item(tier=tier), r, RULES)[0].tier, round(decay_in(item(tier=tier), r), 4)) for r in after}
        assert seen == after

    @pytest.mark.parametrize(
        ("tier", "touches", "rounds"),
        [("ephemeral", 1, 24), ("ephemeral", 16, 24), ("working", 1, 59), ("working", 4, 88), ("working", 16, 88)],
    )
    def test_lifetime_without_a_mention(self, tier: str, touches: float, rounds: int) -> None:
        _, moves = advance(item(tier=tier, touches=touches), 10_000, RULES)
        assert (moves[-1].to, moves[-1].round) == ("swap", rounds)

    @given(all_items(("core",)), st.integers(0, 100_000))
    def test_core_items_are_never_demoted_by_age(self, subject: MemoryItem, gap: int) -> None:
        assert advance(subject, subject.last + gap, RULES) == (subject, ())
        assert decay_in(subject, subject.last + gap) == subject.decay

    @given(st.lists(shares, min_size=40, max_size=40))
    def test_ephemeral_item_is_swapped_within_24_rounds_at_any_stated_decay(self, written: list[float]) -> None:
        subject = item()
        for r, decay in enumerate(written, 1):
            subject, _ = advance(subject, r, RULES)
            if subject.tier == "swap":
                break
            subject = set_decay(subject, r, decay)
        assert subject.tier == "swap"
        assert r <= 24

    @given(st.floats(0, 1), st.integers(0, 31))
    def test_working_item_is_not_demoted_before_its_minimum_stay(self, decay: float, gap: int) -> None:
        assert advance(item(tier="working", decay=decay), gap, RULES)[0].tier == "working"

    def test_touches_extend_the_half_life_up_to_a_limit(self) -> None:
        lives = [half_life(item(tier="working", touches=n), RULES) for n in (1, 4, 100, 100_000)]
        assert lives == [24, 48, 240, 4096]

    def test_swapped_item_decays_like_ephemeral_and_stays_in_swap(self) -> None:
        assert half_life(item(tier="swap"), RULES) == half_life(item(), RULES)
        assert demotion_point(item(tier="swap"), RULES) is None

    @given(items, gaps, rulebooks)
    def test_decay_is_between_0_and_1(self, subject: MemoryItem, gap: int, rules: MemoryRules) -> None:
        assert 0 <= decay_in(subject, subject.last + gap, rules) <= 1
        assert decay_at(subject, subject.last - gap, rules) == subject.decay

    @given(items, st.lists(gaps), rulebooks)
    def test_without_a_touch_decay_only_grows_and_tiers_only_fall(
        self, subject: MemoryItem, gaps: list[int], rules: MemoryRules
    ) -> None:
        rounds = sorted(subject.last + gap for gap in gaps)
        seen = [(decay_in(subject, r, rules), height(advance(subject, r, rules)[0])) for r in rounds]
        assert all(one[0] <= two[0] + TINY and one[1] >= two[1] for one, two in pairwise(seen))

    @given(items, gaps, shares, rulebooks)
    def test_pinned_item_does_not_decay(self, subject: MemoryItem, gap: int, decay: float, rules: MemoryRules) -> None:
        pinned = subject._replace(decay=decay, pinned=True)
        assert demotion_point(pinned, rules) is None
        assert advance(pinned, subject.last + gap, rules) == (pinned, ())
        assert decay_at(pinned, subject.last + gap, rules) == decay

    def test_model_cannot_pin_items(self) -> None:
        assert decay_in(item(extra={"pinned": True}), 8) == 0.5


class TestDemotion:
    @given(items, rulebooks)
    def test_decay_at_the_due_round_equals_the_threshold(self, subject: MemoryItem, rules: MemoryRules) -> None:
        point = demotion_point(subject, rules)
        if point is None:
            assert subject.tier == "core"
            return
        least, most = (subject.since + getattr(bound, subject.tier) for bound in (rules.least_stay, rules.most_stay))
        assert max(subject.anchor + 1, least) <= point <= max(subject.anchor + 1, most)
        if max(subject.anchor + 1, least) < point < most:
            threshold = getattr(rules.thresholds, subject.tier)
            assert decay_at(subject, point, rules) == pytest.approx(threshold, abs=1e-9)

    @given(all_items(LOCATIONS), gaps, gaps, rulebooks)
    def test_advance_does_not_depend_on_how_rounds_are_grouped(
        self, subject: MemoryItem, one: int, more: int, rules: MemoryRules
    ) -> None:
        halfway, moves = advance(subject, subject.last + one, rules)
        end, more_moves = advance(halfway, subject.last + one + more, rules)
        assert (end, moves + more_moves) == advance(subject, subject.last + one + more, rules)

    @given(items, gaps, rulebooks)
    def test_lazy_advance_equals_round_by_round_advance(
        self, subject: MemoryItem, gap: int, rules: MemoryRules
    ) -> None:
        eager, moves = subject, ()
        for r in range(subject.last, subject.last + gap + 1):
            eager, new = advance(eager, r, rules)
            assert all(move.round == r or r == subject.last for move in new), "a move is dated when it is first seen"
            assert len(new) <= 1 or r == subject.last, "one step a round"
            moves += new
        assert (eager, moves) == advance(subject, subject.last + gap, rules)

    @given(items, gaps, rulebooks)
    def test_demotions_go_down_one_tier_at_a_time(self, subject: MemoryItem, gap: int, rules: MemoryRules) -> None:
        aged, moves = advance(subject, subject.last + gap, rules)
        way = [subject.tier, *(move.to for move in moves)]
        assert way == list(LOCATIONS[LOCATIONS.index(subject.tier) : LOCATIONS.index(aged.tier) + 1])
        assert [move.from_ for move in moves] == way[:-1]
        assert sorted(move.round for move in moves) == [move.round for move in moves]

    @given(items, rulebooks)
    def test_demotion_does_not_change_decay(self, subject: MemoryItem, rules: MemoryRules) -> None:
        point = demotion_point(subject, rules)
        if point is None:
            return
        aged, moves = advance(subject, ceil(point), rules)
        assert len(moves) == 1
        assert (aged.anchor, aged.decay) == (point, decay_at(subject, point, rules))

    @given(tiers, st.floats(0, 1), st.integers(0, 99))
    def test_item_is_not_demoted_in_the_round_of_its_touch(self, tier: str, decay: float, last: int) -> None:
        touched = set_decay(item(tier=tier), last, decay)
        assert advance(touched, last, RULES) == (touched, ())

    def test_item_beyond_its_threshold_is_demoted_one_tier_per_round(self) -> None:
        _, moves = advance(set_decay(item(tier="core"), 7, 0.95), 100, OLD_RULES)
        assert moves == (
            TierMove("ada-1", "core", "working", 8, "decay passed 0.5"),
            TierMove("ada-1", "working", "ephemeral", 9, "decay passed 0.75"),
            TierMove("ada-1", "ephemeral", "swap", 10, "decay passed 0.9"),
        )

    def test_long_unused_item_leaves_ephemeral_before_its_threshold(self) -> None:
        _, (move,) = advance(item(), 100, RULES)
        assert (move.round, move.reason) == (24, "not used for long")


class TestMentions:
    def test_mention_lowers_decay_and_extends_the_half_life(self) -> None:
        again = apply_mention(item(), 8, 1.0, RULES)
        assert (again.decay, again.touches, again.anchor, again.last, again.first) == (0, 2, 8, 8, 0)
        used = apply_mention(item(), 8, 0.5, RULES, spoken=False)
        assert (used.decay, used.touches, used.since) == (0.25, 1, 0)

    @given(all_items(LOCATIONS), st.lists(st.tuples(evidences, tiers), min_size=1), st.randoms(), gaps, rulebooks)
    def test_mentions_of_a_round_combine_in_any_order_and_number(
        self, subject: MemoryItem, mentions: list[Any], order: random.Random, gap: int, rules: MemoryRules
    ) -> None:
        round = subject.last + gap
        start, _ = advance(subject, round, rules)
        shuffled = [*mentions, *mentions]
        order.shuffle(shuffled)

        def after(mentions: list[Any]) -> MemoryItem:
            now = start
            for evidence, ceiling in mentions:
                now = apply_mention(now, round, evidence, rules, ceiling)
            return now

        assert after(mentions) == after(shuffled)
        assert after(mentions).touches == start.touches + max(evidence for evidence, _ in mentions)

    @given(all_items(LOCATIONS), gaps, evidences, tiers, st.lists(gaps, min_size=1), rulebooks)
    def test_mention_lowers_decay_in_all_later_rounds(
        self, subject: MemoryItem, gap: int, evidence: float, ceiling: Any, later: list[int], rules: MemoryRules
    ) -> None:
        now = first_round(subject) + gap
        twin, _ = advance(subject, now, rules)
        better = apply_mention(twin, now, evidence, rules, ceiling)
        for r in (now, *(now + gap for gap in later)):
            assert decay_in(better, r, rules) <= decay_in(twin, r, rules) + TINY
            assert height(advance(better, r, rules)[0]) >= height(advance(twin, r, rules)[0])

    @given(all_items(LOCATIONS), gaps, evidences, evidences, st.booleans(), st.integers(0, 400), gaps, rulebooks)
    def test_late_mention_lowers_decay(
        self,
        subject: MemoryItem,
        gap: int,
        one: float,
        two: float,
        looked_up: bool,
        late: int,
        later: int,
        rules: MemoryRules,
    ) -> None:
        start = first_round(subject)
        now = start + gap
        twin, _ = advance(apply_mention(subject, start, one, rules), now, rules)
        if looked_up:
            twin = rehydrate(move_to_swap(twin, now, rules), now, rules)
        better = apply_mention(twin, max(0, now - late), two, rules)
        assert better.last >= twin.last
        for r in (now, now + later):
            assert decay_in(better, r, rules) <= decay_in(twin, r, rules) + TINY

    def test_late_mention_is_not_dated_before_a_demotion(self) -> None:
        fallen, _ = advance(item(tier="working"), 50, RULES)
        assert fallen.anchor == 48
        assert apply_mention(fallen, 30, 0.5, RULES).anchor == set_decay(fallen, 30, 0.2).anchor == 48

    @pytest.mark.parametrize(
        ("tier", "touches", "ceiling", "to"),
        [
            ("ephemeral", 1.0, "core", "ephemeral"),
            ("ephemeral", 2.0, "core", "working"),
            ("ephemeral", 20.0, "core", "working"),
            ("ephemeral", 20.0, "ephemeral", "ephemeral"),
            ("working", 6.0, "core", "working"),
            ("working", 7.0, "core", "core"),
            ("working", 7.0, "working", "working"),
            ("core", 7.0, "working", "core"),
            ("core", 1.0, "core", "core"),
            ("swap", 1.0, "ephemeral", "ephemeral"),
            ("swap", 20.0, "core", "ephemeral"),
        ],
    )
    def test_mention_promotes_by_at_most_one_tier_per_round(
        self, tier: str, touches: float, ceiling: Any, to: str
    ) -> None:
        once = apply_mention(item(tier=tier, touches=touches), 1, 1.0, RULES, ceiling)
        assert once.tier == to
        assert apply_mention(once, 1, 1.0, RULES, ceiling) == once, "one step a round"

    def test_item_mentioned_in_every_round_is_promoted_to_core(self) -> None:
        way = [item()]
        for r in range(1, 8):
            way.append(apply_mention(way[-1], r, RULES.restated, RULES))
        assert [each.tier for each in way] == ["ephemeral"] * 2 + ["working"] * 5 + ["core"]

    @given(all_items(LOCATIONS), gaps, shares, rulebooks)
    def test_a_stated_decay_counts_from_its_round(
        self, subject: MemoryItem, gap: int, decay: float, rules: MemoryRules
    ) -> None:
        now = first_round(subject) + gap
        said = set_decay(advance(subject, now, rules)[0], now, decay)
        assert (decay_at(said, now, rules), said.touches, said.last) == (decay, subject.touches, now)

    def test_a_stated_decay_is_bounded(self) -> None:
        assert [set_decay(item(), 1, decay).decay for decay in (-0.5, 1.5)] == [0, 1]

    def test_a_stated_decay_outlives_the_mentions_it_was_stated_with(self) -> None:
        said = set_decay(apply_mention(item(decay=0.8), 1, 0.5, RULES), 1, 0.6)
        assert (said.decay, said.touches) == (0.6, 1.5)
        assert apply_mention(said, 1, 0.5, RULES) == said
        stronger = apply_mention(said, 1, 1.0, RULES)
        assert (stronger.decay, stronger.touches) == (0, 2)


class TestSwap:
    @given(all_items(LOCATIONS), gaps, rulebooks)
    def test_swapping_changes_only_the_tier(self, subject: MemoryItem, gap: int, rules: MemoryRules) -> None:
        now = first_round(subject) + gap
        resident, _ = advance(subject, now, rules)
        away = move_to_swap(resident, now, rules)
        assert (away.tier, away.touches, away.last) == ("swap", subject.touches, subject.last)
        assert decay_at(away, now, rules) == decay_at(resident, now, rules)
        assert advance(away, now + 1000, rules) == (away, ())

    @given(all_items(("swap",)), gaps, rulebooks)
    def test_rehydrated_item_is_ephemeral_and_below_the_threshold(
        self, subject: MemoryItem, gap: int, rules: MemoryRules
    ) -> None:
        now = first_round(subject) + gap
        back = rehydrate(subject, now, rules)
        assert (back.tier, back.touches, back.last) == ("ephemeral", subject.touches, subject.last)
        assert back.decay <= rules.rehydrated
        assert advance(back, now, rules) == (back, ())

    def test_rehydrated_item_stays_some_rounds(self) -> None:
        gone, _ = advance(item(), 27, RULES)
        back = rehydrate(gone, 40, RULES)
        assert advance(back, 58, RULES)[0].tier == "ephemeral"
        assert advance(back, 59, RULES)[0].tier == "swap"


events = st.lists(
    st.tuples(st.integers(0, 80), st.sampled_from(("mention", "state", "swap", "look up")), evidences), max_size=12
)


@given(items, events, rulebooks)
def test_item_history_does_not_depend_on_how_often_it_is_advanced(
    subject: MemoryItem, events: list[Any], rules: MemoryRules
) -> None:
    def lived(watched: bool) -> MemoryItem:
        now, life = first_round(subject), subject
        for gap, event, share in events:
            for r in range(now, now + gap) if watched else ():
                life = MemoryItem.from_json(json.loads(json.dumps(advance(life, r, rules)[0].as_json())))
            now += gap
            life, _ = advance(life, now, rules)
            match event:
                case "mention":
                    life = apply_mention(life, now, share, rules)
                case "state":
                    life = set_decay(life, now, share)
                case "swap":
                    life = move_to_swap(life, now, rules)
                case "look up" if life.tier == "swap":
                    life = rehydrate(life, now, rules)
            assert 0 <= decay_at(life, now, rules) <= 1
            assert life.first <= life.last <= now
        return life

    assert lived(watched=True) == lived(watched=False)


class TestItems:
    @given(
        all_items(LOCATIONS),
        st.none() | st.builds(Mentions, shares, shares, st.floats(1, 9), st.sampled_from(LOCATIONS), evidences, tiers),
        st.lists(st.text()),
        st.sampled_from(ORIGINS),
        st.text(),
        st.dictionaries(st.text(), st.text() | st.lists(st.integers()) | st.booleans()),
    )
    def test_memory_item_survives_json(
        self, subject: MemoryItem, mentions: Any, tags: list[str], origin: Any, source: str, extra: dict[str, Any]
    ) -> None:
        subject = subject._replace(mentions=mentions, tags=tuple(tags), origin=origin, source=source, extra=extra)
        assert MemoryItem.from_json(json.loads(json.dumps(subject.as_json()))) == subject

    def test_memory_item_defaults_are_not_stored(self) -> None:
        assert list(item().as_json()) == [
            "id", "type", "content", "tags", "tier", "decay", "anchor", "first", "last",
        ]  # fmt: skip

    def test_memory_item_is_shown_to_the_model_in_this_form(self) -> None:
        seen = item(last=4, extra={"colour": "green"}).shown(0.123)
        assert json.dumps(seen) == (
            '{"id": "ada-1", "type": "fact", "decay": 0.123, "round": 4, "tags": ["tea"],'
            ' "content": "Ada likes tea.", "colour": "green"}'
        )


class TestRules:
    def test_guide_names_every_memory_rule(self) -> None:
        for field in fields(MemoryRules):
            assert f"`{field.name}`" in GUIDE

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"half_lives": (96, 24, 8)}, r"half_lives must be PerTier\(core=..., working=..., ephemeral=...\)"),
            ({"half_lives": PerTier(96, "a day", 8)}, "half_lives.working must be a number, not 'a day'"),
            ({"half_lives": PerTier(8, 24, 96)}, "half_lives must be above 0, and longest in core"),
            ({"half_lives": PerTier(96, 24, 0)}, "half_lives must be above 0"),
            ({"thresholds": PerTier(0.5, 0.75, 1)}, "thresholds must be between 0 and 1, and lowest in core"),
            ({"thresholds": PerTier(0.9, 0.75, 0.5)}, "lowest in core"),
            ({"capacity": PerTier(200, 1.5, 100)}, "capacity.working must be a whole number from 0 up"),
            ({"growth": 1.5}, "growth must be from 0 to 1, not 1.5"),
            ({"growth": True}, "growth must be a number, not True"),
            ({"longest": 20}, "no shorter than the half-life of working"),
            ({"least_stay": PerTier(1, -1, 1)}, "least_stay must be from 0 up"),
            ({"most_stay": PerTier(5, 5, 0)}, "most_stay must be from 1 up"),
            ({"longest": float("inf")}, "longest must be a number"),
            ({"working_at": 1}, "working_at must be above 1"),
            ({"core_at": 2}, "no less than working_at"),
            ({"restated": 0}, "restated must be above 0 and up to 1"),
            ({"echoed": 2}, "echoed must be above 0 and up to 1"),
            ({"rehydrated": 0.9}, "below the threshold of ephemeral"),
        ],
    )
    def test_invalid_memory_rule_is_named_in_the_error(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(SettingsError, match=message):
            MemoryRules(**wrong)

    def test_settings_accept_memory_rules(self) -> None:
        rules = MemoryRules(growth=0)
        assert settings_from(memory=rules, evolution="off") == Settings(memory=rules, evolution="off")
        with pytest.raises(SettingsError, match="memory must be MemoryRules"):
            settings_from(memory={"growth": 0})
        with pytest.raises(SettingsError, match=r"unknown evolution 'on': .*known are decay, off"):
            settings_from(evolution="on")
