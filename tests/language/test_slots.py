"""Which attribute a memory item sets: the same for its older and newer value, another for everything else."""

import re
import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxwrap.language.patterns import folded, has_any
from ctxwrap.language.slots import _HINTS, _RULES, name_in, slot_of
from ctxwrap.language.statements import statements_in

SHARED = {
    "user:home": (
        "The user lives in Berlin.",
        "User moved to Lisbon.",
        "Ada now lives in Lisbon, Portugal.",
        "Home: Lisbon",
        "用户搬到了里斯本",
        "The user recently relocated to Toronto.",
        "User is based in Nairobi",
        "用户住在上海。",
        "Location: Ghent, Belgium",
        "The user lives in a small village near Lyon.",
        "The user has moved from Oslo to Bergen.",
        "Lives in New York City",
    ),
    "user:name": (
        "The user's name is Ada Lovelace.",
        "User is called Ada",
        "Name: Ada King",
        "用户的名字是李雷。",
        "用户叫韩梅梅",
    ),
    "user:employer": (
        "The user works at Siemens.",
        "User now works for Bosch",
        "Employer: Acme",
        "The user joined Spotify as a designer.",
        "用户在腾讯工作。",
    ),
    "user:job": (
        "The user works as a nurse.",
        "The user's job is teaching",
        "Profession: architect",
        "用户的职业是律师。",
    ),
    "user:age": ("The user is 34 years old.", "User is 35.", "Age: 36", "用户今年36岁。"),
    "user:budget": (
        "The user's budget is 1,500 euros.",
        "User has a budget of $2000",
        "Budget: 900 EUR",
        "用户的预算是五千元。",
    ),
    "user:budget:trip": ("The user's budget for the trip is 2000 euros.", "Budget for the trip: $2500"),
    "user:deadline:grant proposal": (
        "The deadline for the grant proposal is next Friday.",
        "The grant proposal deadline moved to Monday.",
        "The grant proposal is due on 3 June.",
    ),
    "project:deadline": (
        "The project deadline is Friday.",
        "The deadline for the project has been moved to 3 May.",
        "项目的截止日期是6月1日。",
    ),
    "user:favourite:colour": (
        "The user's favourite colour is teal.",
        "User's favorite color is now red",
        "用户最喜欢的颜色是墨绿色。",
    ),
    "user:language": (
        "The user wants the assistant to always answer in German.",
        "User prefers answers in French.",
        "用户要求助手以后用英文回答。",
    ),
    "mother:home": ("The user's mother lives in Porto.", "The user's mom moved to Lisbon.", "用户的妈妈住在西安。"),
    "user:email": ("The user's email is ada@example.com.", "Email: ada@example.org"),
    "user:timezone": ("The user's time zone is CET.", "Timezone: UTC+2"),
    "wife:name": ("The user's wife is called Elena.", "The user's wife's name is Elena Rossi.", "用户的老婆叫林晓。"),
    "brother tom:home": ("The user's brother Tom lives in Faro.", "The user's brother Tom moved to Paris."),
    "user:birthday": ("The user's birthday is 3 May.", "Birthday: 4 May"),
    "user:marital status": ("The user is single.", "The user is now married."),
}

NEVER = (
    "The user likes tea.",
    "The user loves hiking and pottery.",
    "The user is allergic to peanuts.",
    "The user has two children.",
    "The user's dog is a beagle.",
    "The user has a cat named Pixel.",
    "The user's brother lives in Faro.",
    "The user's friend is called Tom.",
    "The user wants to move to Lisbon.",
    "The user might move to Canada.",
    "The user is visiting Rome.",
    "The user used to live in Berlin.",
    "The user grew up in Porto.",
    "The user does not live in Berlin.",
    "The user is moving to Boston.",
    "The user plans to live in Oslo.",
    "The user lives in Berlin and works at Siemens.",
    "The user lives in Berlin and Paris.",
    "The user also lives in Rome.",
    "The user no longer works at Nokia.",
    "The user previously worked at Nokia.",
    "The user may join Spotify.",
    "The user moved to TypeScript.",
    "The user moved to Kubernetes.",
    "The user lives with two cats.",
    "The user lives in a flat.",
    "The user works hard.",
    "The user works from home.",
    "The user is a nurse.",
    "The user speaks Dutch.",
    "The user's favourite authors are Borges and Woolf.",
    "One of the user's favourite books is Dune.",
    "The deadline is tight.",
    "The deadline is Friday.",
    "The budget is limited.",
    "The user's budget is not fixed.",
    "The user decided to go with Postgres.",
    "The user needs to file taxes by Friday.",
    "The user hopes to work for Google.",
    "If the user lives in Rome, they need a permit.",
    "The user asked where Ada lives.",
    "用户喜欢爬山。",
    "用户对花生过敏。",
    "用户想搬到里斯本。",
    "用户以前住在柏林。",
    "用户不住在上海。",
    "用户有两个孩子。",
    "用户可能去谷歌工作。",
    "用户在北京工作。",
    "用户决定用Postgres。",
    "用户的狗叫豆豆。",
    "The user drives a Skoda.",
    "The user's car is a Volvo.",
    "Lisbon is sunny.",
    "The user joined Twitter.",
    "The user joined the Chess Club.",
    "The user's budget is 900 EUR per month for food.",
    "用户叫了外卖。",
    "用户叫他起床。",
    "用户搬到了新家。",
    "用户搬到Kubernetes了。",
    "The user's home is far from work.",
    "The user's name is hard to pronounce.",
    "The user lives in Berlin during the week.",
    "The user works at Google on weekends.",
    "The user is 34 weeks pregnant.",
    "The user is in Rome.",
    "The user is staying in Rome.",
    "The user would like to be called Ada.",
    "The user's job is stressful.",
    "The user's age is unknown.",
    "The user said that Bob lives in Rome.",
    "",
)

APART = (
    ("The user lives in Berlin.", "The user's mother lives in Berlin."),
    ("The user lives in Berlin.", "Bob lives in Porto."),
    ("The user lives in Berlin.", "The user's wife lives in Rome."),
    ("The user lives in Berlin.", "The user was born in Lisbon."),
    ("The user lives in Berlin.", "The user works at Siemens."),
    ("The user lives in Berlin.", "The user's name is Berlin."),
    ("The user lives in Berlin.", "The user's address is 5 Elm Street."),
    ("The user lives in Berlin.", "用户的妈妈住在柏林。"),
    ("The user's brother Tom lives in Faro.", "The user's brother Jim lives in Rome."),
    ("The user's brother Tom lives in Faro.", "The user's friend Tom lives in Oslo."),
    ("The user's mother lives in Porto.", "The user's father lives in Porto."),
    ("The user's name is Ada.", "The user's wife is called Ada."),
    ("The user's name is Ada.", "The user's nickname is Addie."),
    ("The user's name is Ada.", "The user's last name is Lovelace."),
    ("The user's name is Ada.", "The project's name is Apollo."),
    ("The user works at Siemens.", "The user works as a nurse."),
    ("The user works at Siemens.", "The user's husband works at Bosch."),
    ("The user works at Siemens.", "用户的老公在华为工作。"),
    ("The user is 34 years old.", "The user's daughter Mia is 6."),
    ("The user is 34 years old.", "The user's wife is 36 years old."),
    ("The user's daughter Mia is 6.", "The user's daughter Ida is 9."),
    ("The user's budget is 900 EUR.", "The user's budget for the trip is 900 EUR."),
    ("The user's budget for the trip is 900 EUR.", "The user's budget for the kitchen is 900 EUR."),
    ("The user's monthly budget is 900 EUR.", "The user's travel budget is 900 EUR."),
    ("The user's budget is 900 EUR.", "The project budget is 900 EUR."),
    ("用户的预算是五千元。", "用户的装修预算是五万元。"),
    ("The project deadline is Friday.", "The project's budget is 500 EUR."),
    ("The project deadline is Friday.", "The deadline for the thesis is Friday."),
    ("The deadline for the thesis is Friday.", "The deadline for the taxes is Friday."),
    ("The user's thesis is due on 14 June.", "The user's rent is due on 1 June."),
    ("论文的截止日期是周五。", "项目的截止日期是周五。"),
    ("The user's favourite colour is teal.", "The user's favourite book is Dune."),
    ("The user's favourite colour is teal.", "The user's wife's favourite colour is red."),
    ("用户最喜欢的颜色是红色。", "用户最喜欢的作家是余华。"),
    ("The user prefers answers in French.", "The user's native language is French."),
    ("The user's email is a@example.com.", "The user's work email is b@example.com."),
    ("The user's email is a@example.com.", "The user's phone number is 555."),
    ("The user's birthday is 3 May.", "The user's mother's birthday is 3 June."),
    ("The user was born in Izmir.", "The user was born in 1990."),
    ("The user was born on 3 May 1990.", "The user was born in Izmir."),
    ("The user's height is 180 cm.", "The user's weight is 80 kg."),
    ("The user is single.", "The user is vegan."),
    ("The user is married.", "The user's brother Tom is married."),
    ("Home: Lisbon", "Name: Lisbon"),
    ("Age: 34", "Budget: 34 EUR"),
    ("The user's boss is called Kim.", "The user's partner is called Kim."),
    ("Ada lives in Rome.", "Bob lives in Rome."),
    ("用户住在上海。", "用户的爸爸住在上海。"),
    ("用户叫李雷。", "用户的老婆叫李雷。"),
    ("用户出生于成都。", "用户住在成都。"),
)


def pairs() -> list[tuple[str, str]]:
    return [pair for contents in SHARED.values() for pair in combinations(contents, 2)]


def test_slot_data_set_has_enough_pairs() -> None:
    assert len(pairs()) >= 80
    assert len(APART) + len(NEVER) >= 120


@pytest.mark.parametrize("slot", SHARED)
def test_older_and_newer_values_share_a_slot(slot: str) -> None:
    assert {content: slot_of(content, "Ada") for content in SHARED[slot]} == dict.fromkeys(SHARED[slot], slot)


@pytest.mark.parametrize("content", NEVER)
def test_values_that_can_coexist_have_no_slot(content: str) -> None:
    assert slot_of(content, "Ada") == ""


@pytest.mark.parametrize("pair", APART)
def test_different_attributes_and_owners_share_no_slot(pair: tuple[str, str]) -> None:
    one, other = (slot_of(content) for content in pair)
    assert one != other or one == ""


def test_slots_of_different_groups_differ() -> None:
    slots = [slot_of(content, "Ada") for contents in SHARED.values() for content in contents[:1]]
    assert len({*slots}) == len(SHARED)


def test_slot_owner_is_the_user_only_for_the_name_of_the_user() -> None:
    assert (
        slot_of("Ada lives in Rome.", "Ada Lovelace")
        == slot_of("Ada Lovelace lives in Rome.", "Ada Lovelace")
        == "user:home"
    )
    assert slot_of("Bob lives in Rome.", "Ada Lovelace") == slot_of("Bob lives in Rome.") == "bob:home"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("The user's name is Ada Lovelace.", "Ada Lovelace"),
        ("User is called Bea", "Bea"),
        ("用户的名字是李雷。", "李雷"),
        ("The user's wife is called Elena.", ""),
        ("The user likes Ada.", ""),
    ],
)
def test_the_name_of_the_user_is_read_from_its_item(content: str, name: str) -> None:
    assert name_in(content) == name


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I live in Berlin.", "We moved to Lisbon last month."),
        ("I work at Siemens.", "I just started working at Klarna."),
        ("My budget is 900 euros.", "Our budget is 1,200 euros."),
        ("My favourite colour is teal.", "My favorite color is red."),
        ("Always answer in German.", "From now on reply in French."),
        ("我住在上海。", "我搬到了里斯本。"),
        ("我的预算是五千元。", "预算是六千元。"),
    ],
)
def test_a_newer_statement_takes_the_slot_of_the_older(older: str, newer: str) -> None:
    one, other = (slot_of(statements_in(message)[0].content) for message in (older, newer))
    assert one == other != ""


ENGLISH = [rule.pattern for rule, _ in _RULES if not re.search("[\u4e00-\u9fff]", rule.pattern)]


@pytest.mark.parametrize("rule", ENGLISH)
@given(st.data())
def test_every_text_that_a_rule_matches_has_a_hint(rule: str, data: st.DataObject) -> None:
    """A rule reads only texts with a hint."""
    text = data.draw(st.from_regex(rule, alphabet=st.characters(codec="ascii")))
    assert has_any(folded(text), _HINTS)


@given(
    st.one_of(
        st.text(max_size=400),
        st.lists(
            st.sampled_from(
                [
                    "The",
                    "user's",
                    "lives",
                    "in",
                    "Rome",
                    "budget",
                    "deadline",
                    "is",
                    "for",
                    "用户",
                    "住在",
                    ":",
                    ".",
                    "A",
                ]
            )
        ).map(" ".join),
    )
)
def test_any_content_has_a_short_slot_or_none(content: str) -> None:
    slot = slot_of(content)
    assert len(slot) <= 120
    assert slot == "" or ":" in slot


@pytest.mark.parametrize(
    "piece",
    [
        "The user's ",
        "A ",
        "lives in A, ",
        "deadline for a ",
        "budget ",
        "用户的",
        "预算",
        "a",
        "\n",
        "The user lives in A-A-",
    ],
)
def test_hostile_content_takes_no_longer_than_other_content(piece: str) -> None:
    text = piece * 20_000
    started = time.process_time()
    for size in (100, 299, 300, len(text)):
        slot_of(text[:size])
        name_in(text[:size])
    assert time.process_time() - started < 0.5
