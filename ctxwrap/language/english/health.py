"""Rules about allergies, illnesses and diet."""

import re

from ctxwrap.language.english.values import ADVERBS, I_AM, I_DO, alternation, specific_value, template_rule
from ctxwrap.language.lexicon import CIRCUMSTANCES, CONDITIONS, LANGUAGES, NATIONS, STATES
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.rules import (
    HEALTH,
    LIFE,
    RuleMatch,
    RuleTable,
    Statement,
    compile_rules,
    third_person,
    user_clause,
)

NO_ALLERGENS = lazy_pattern(
    r"(?i:.*\b(?:mornings?|mondays?|work|meetings?|stupidity|bullshit|nonsense|drama|boredom"
    r"|commitments?|people|exercise|javascript"
    r"|excel|code|small talk|responsibility|effort|winter|math|maths|bureaucracy|politics"
    r"|deadlines|bad \w+|being|waking|failure|fun|lies|idiots|him|her))"
)


def _allergic(found: RuleMatch) -> Statement | None:
    what = specific_value(found["what"])
    if not what or NO_ALLERGENS.match(what):
        return None
    strongly = "severely " if found["how"] and re.search("sever|dead|extrem|highly|very", found["how"]) else ""
    not_ = "not " if found["not"] else ""
    return HEALTH.of(f"The user is {not_}{strongly}allergic to {what}.")


def _has_allergy(found: RuleMatch) -> Statement | None:
    what, kind = found["what"], found["kind"].lower()
    if NO_ALLERGENS.match(what) or re.match(r"(?:any|some|many|no|bad|lots|few)\b", what):
        return None
    article = "" if kind == "allergies" else "an " if what[0] in "aeiou" else "a "
    return HEALTH.of(f"The user has {article}{what} {kind}.")


_STATE = frozenset(CIRCUMSTANCES.split())


def _has_state(found: RuleMatch) -> Statement | None:
    what = found["what"].lower()
    category = LIFE if what in _STATE else HEALTH
    what = what.title() if what in {"muslim", "jewish", "catholic", "buddhist", "hindu"} else what
    return category.of(f"The user is {'not ' if found['not'] else ''}{what}.")


def _is_national(found: RuleMatch) -> Statement | None:
    return LIFE.of(f"The user is {found['what'].title()}.")


def _ill(found: RuleMatch) -> Statement | None:
    return HEALTH.of(f"The user has {third_person(found['what'])}.")


def _abstains(found: RuleMatch) -> Statement | None:
    what = specific_value(found["what"])
    verb = user_clause(re.sub("do not", "don't", found["not"].lower()))
    return HEALTH.of(f"{verb} {what}.") if what and len(what.split()) < 9 else None


HEALTH_RULES: RuleTable = compile_rules(
    (
        rf"{I_AM}(?P<not>(?i:not ))?(?P<how>(?i:(?:severely|deathly|extremely|highly|very|mildly|slightly"
        rf"|terribly|badly) ))?(?i:allergic) to (?P<what>.{{2,90}})$",
        _allergic,
    ),
    (
        r"(?i:i|i've)(?i: also| actually| unfortunately| got| do){0,2} (?i:have|suffer from|got)? ?"
        r"(?i:an?|the)? ?(?P<how>(?i:severe |bad |mild |serious |serious |strong ))?(?i:allergy to"
        r"|allergies to) (?P<what>.{2,80})(?P<not>)$",
        _allergic,
    ),
    (
        rf"(?i:i|i've){ADVERBS} (?i:have|got|suffer from) (?i:an? )?(?P<how>(?i:severe |bad |mild |serious "
        rf"|strong ))?(?P<what>[a-z]{{3,14}}(?: [a-z]{{3,10}})?) (?P<kind>(?i:allergy|allergies))(?=$"
        rf"|[,;.]| and\b)",
        _has_allergy,
    ),
    (
        rf"{I_DO}(?i:have no|don't have any) (?P<what>(?i:(?:food |known )?allergies))$",
        template_rule(HEALTH, "The user has no {what}."),
    ),
    (
        rf"{I_AM}(?P<not>(?i:not ))?(?i:an? |a strict |strictly |fully |legally )?(?P<what>"
        rf"(?i:{alternation(STATES)}|lactose intolerant|gluten intolerant|hard of hearing|color blind"
        rf"|colour blind))(?=$|[,;.(]| (?:and|but|since|so|for|with|from|now)\b)",
        _has_state,
    ),
    (rf"{I_AM}(?P<what>(?i:{alternation(NATIONS)}|{alternation(LANGUAGES)}))(?=$|[,;.]| (?:and|but)\b)", _is_national),
    (
        rf"(?i:i|i've){ADVERBS} (?i:have|got|suffer from|live with|was diagnosed with|been diagnosed with"
        rf"|am living with) (?P<what>(?i:an? )?(?:[\w\-]{{2,14}} ){{0,3}}?(?i:type (?:1|2|one"
        rf"|two) diabetes|{alternation(CONDITIONS)})\b(?i: disease| disorder| syndrome)?)(?=$|[,;.]| (?:and"
        rf"|since|for|but|so)\b)",
        _ill,
    ),
    (rf"{I_AM}(?i:intolerant) to (?P<what>.{{3,60}})$", template_rule(HEALTH, "The user is intolerant to {what}.")),
    (
        rf"{I_DO}(?P<not>(?i:don't eat|do not eat|can't eat|cannot eat|can't have|don't drink|do not drink"
        rf"|can't drink|never eat|never drink|avoid eating)) (?P<what>(?!(?i:much|a lot|enough|too"
        rf"|breakfast|lunch|dinner|out|before|after|until|at|another)\b).{{3,60}})$",
        _abstains,
    ),
    (
        rf"{I_DO}(?i:keep|eat|only eat) (?P<what>(?i:kosher|halal|vegan|vegetarian|gluten-free|keto|paleo))\b",
        template_rule(HEALTH, "The user keeps to {what} food."),
    ),
    (
        rf"(?:{I_DO}(?i:follow|stick to|eat)|{I_AM}(?i:on|following)) (?P<what>(?i:an? "
        rf"(?:strict )?[\w\-]{{3,16}}(?: [\w\-]{{3,12}})? diet))\b",
        template_rule(HEALTH, "The user follows {what}."),
    ),
    (
        rf"(?:{I_DO}(?i:take)|{I_AM}(?i:taking|on)) (?P<what>(?!(?i:the|a|an|my|it|this|that|care|time|part"
        rf"|notes)\b)[a-z]{{4,16}}(?: \d+ ?mg)?(?: (?:daily|every day|every morning|twice a day"
        rf"|twice daily))? for (?:my|an?|high) [a-z ]{{4,40}})$",
        template_rule(HEALTH, "The user takes {what}."),
    ),
)
