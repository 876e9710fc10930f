"""Work: what the user does for a living, and for whom."""

import re

from ctxwrap.language.chinese.values import HAN, LAST, NOW, TRADES, says
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.statement import LIFE, RuleMatch, RuleTable, Statement, rules

_BAD_TRADE = lazy_pattern(".*(?:好|差|坏|烂|合格的|你的|他的|她的|笨|糟糕的|普通)$")


def _is_a(found: RuleMatch) -> Statement | None:
    before = found["before"]
    if _BAD_TRADE.match(before) or re.search("[你他她它这那不想要当做为谁被]", before):
        return None
    return LIFE.of(f"用户是{found['one']}{before}{found['trade']}。")


def _works(found: RuleMatch) -> Statement | None:
    place = found["place"].strip()
    if len(place) > 24 or re.search("[我你他她]", place):
        return None
    if place in ("家", "家里"):
        return LIFE.of(f"用户在{place}{found['how']}。") if found["how"].startswith(("办公", "工作")) else None
    if re.match(
        ("(?:公司|单位|这里|这|那|外面|努力|认真|拼命|哪|里面|学校$|加班|晚上|白天|周末|忙|一直|同一|路上|同时)"), place
    ):
        return None
    return LIFE.of(f"用户在{place}{LAST.sub('', found['how'])}。")


RULES: RuleTable = rules(
    (
        (
            rf"(?:我|本人){NOW}是(?P<one>(?:一|个|名|位|一个|一名|一位|两个孩子的)?)"
            rf"(?P<before>[{HAN}A-Za-z\d/ ]{{0,12}}?)(?P<trade>{TRADES})$"
        ),
        _is_a,
    ),
    (
        (
            rf"(?:我|本人){NOW}在(?P<place>[{HAN}A-Za-z\d·&. ]{{1,24}}?)(?P<how>(?:工作|上班|任职|就职|实习"
            rf"|办公|教书|读书|上学|念书|读研|读博|读大[一二三四]|上大学|留学|教(?:数学|语文|英语|物理|化学"
            rf"|历史|音乐|美术)|(?:当|做|担任|任|读|学|念)[{HAN}A-Za-z]{{2,12}}))(?:了|的"
            rf"|[{HAN}]{{0,3}}年了?)?$"
        ),
        _works,
    ),
    (
        r"我(?:的)?(?P<k>职业|工作|本职工作|专业|主业)是(?:做)? ?(?P<what>.{2,24})$",
        says(LIFE, "用户的{k}是{what}。", 24),
    ),
    (r"(?:我|我目前|我现在|我一直)从事(?P<what>.{2,20})$", says(LIFE, "用户从事{what}。", 20)),
    (
        (
            r"(?:我|我们|我自己|我和.{1,6})(?:自己)?(?:经营|开)(?:了|着)?(?P<what>一?(?:家|间"
            r"|个)[^，,]{0,20}(?:店|馆|公司|厂|工作室|诊所|农场|餐厅|超市|民宿|咖啡馆|书店|面馆|酒吧"
            r"|事务所|学校|厅|铺|坊|屋|房))$"
        ),
        says(LIFE, "用户经营{what}。"),
    ),
    (
        (
            r"我(?:已经|去年|今年|刚|早就)?(?P<what>退休|失业|离婚|结婚|怀孕|订婚)(?:\d+年"
            r"|[一二三四五六七八九十两]+(?:年|个月|周))?了$"
        ),
        says(LIFE, "用户已{what}。"),
    ),
)
