"""Health: what the user must not eat and suffers from."""

import re

from ctxwrap.language.chinese.values import HAN, ILLNESS, NO_ALLERGEN, plain, says
from ctxwrap.language.statement import HEALTH, RuleMatch, RuleTable, Statement, rules


def _allergic(found: RuleMatch) -> Statement | None:
    what = found["what"].strip()
    if NO_ALLERGEN.search(what) or len(what) > 24 or not what:
        return None
    return HEALTH.of(f"用户对{what}{found['how'] or ''}过敏。")


def _allergic_shortly(found: RuleMatch) -> Statement | None:
    what = found["what"]
    if NO_ALLERGEN.search(what) or re.search("[不没是又会容易皮肤一]|严重|容易|最近|有点|今天|开始|吃", what):
        return None
    return HEALTH.of(f"用户对{what}过敏。")


def _abstains(found: RuleMatch) -> Statement | None:
    what = plain(found["what"], 14)
    if not what or re.search(
        ("今天|今晚|现在|早饭|午饭|晚饭|早餐|午餐|晚餐|夜宵$|亏|惊|这套|下|饱|完|醋|苦|太多|多$|一套|到|得|动|起|饭"),
        found["what"],
    ):
        return None
    return HEALTH.of(f"用户{found['verb']}{what}。")


RULES: RuleTable = rules(
    (
        (
            r"我(?:从小|一直|真的|也|是|天生|确实|其实){0,2}对(?P<what>[^，,]{1,24}?)(?:都|也|是|有)?"
            r"(?P<how>严重|重度|轻度|轻微)?(?:地)?过敏(?:的)?$"
        ),
        _allergic,
    ),
    (rf"我(?:不|并不|没有)对(?P<what>[{HAN}]{{1,12}})过敏$", says(HEALTH, "用户对{what}不过敏。")),
    (rf"我对(?P<what>[{HAN}]{{1,12}})(?:并)?不过敏$", says(HEALTH, "用户对{what}不过敏。")),
    (rf"我(?:有)?(?P<what>[{HAN}]{{2,5}})过敏(?:症)?$", _allergic_shortly),
    (
        (
            rf"我(?:从小|一直|去年|今年|前年|也|被|最近){{0,2}}(?:患有|患了|得了|有|被诊断出|查出|确诊了?"
            rf"|是|被确诊为?)(?:严重的|轻度的?|重度的?|中度的?|慢性|先天性)?(?P<what>(?:{ILLNESS}))(?:患者"
            rf"|病人)?(?:的)?$"
        ),
        says(HEALTH, "用户有{what}。"),
    ),
    (r"我(?P<what>乳糖不耐受?|麸质不耐受?)$", says(HEALTH, "用户{what}。")),
    (
        (
            r"我(?:一直|现在|长期|已经|是|也|是个|是一个|是一名|从小|们家){0,2}(?P<what>吃素|吃全素"
            r"|纯素食?者|素食主义者|素食者|严格素食者|蛋奶素)(?:的|很多年|多年"
            r"|[一二三四五六七八九十\d]+年)?了?$"
        ),
        lambda found: HEALTH.of(f"用户{'' if found['what'].startswith('吃') else '是'}{found['what']}。"),
    ),
    (
        (
            r"我(?:从来|从|一直|也|平时|一般|完全|是|基本|绝对|真的){0,2}(?P<verb>不吃|不喝|不能吃|不能喝"
            r"|吃不了|喝不了|不碰|从不吃|从不喝)(?P<what>.{1,14})$"
        ),
        _abstains,
    ),
)
