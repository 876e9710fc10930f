"""Tastes: what the user likes, and how they want to be answered."""

import re

from ctxwrap.language.chinese.values import LAST, plain, says, third_person
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.statement import INSTRUCTION, LIKING, RuleMatch, RuleTable, Statement, rules

_LIKED_ONCE = lazy_pattern(
    ".*(?:方案|建议|主意|想法|版本|选项|回答|答案|这样|那样|一点|多一些|一些)$|(?:上|你|他|她"
    "|吃醋|面子|谁|了|过|过你|来|去|的是|莫|怎|咋)"
)


def _likes(found: RuleMatch) -> Statement | None:
    what = plain(found["what"], 40)
    if not what or _LIKED_ONCE.match(what) or re.search("[你您他她]", what):
        return None
    return LIKING.of(f"用户{found['how']}{found['verb']}{third_person(what)}。")


def _favourite(found: RuleMatch) -> Statement | None:
    what, of = plain(found["what"], 30), found["of"]
    if not what or re.search("[你他她这那]", of) or re.match("部分|一点|地方|就|是", of):
        return None
    return LIKING.of(f"用户最{found['verb']}的{of}是{third_person(what)}。")


def _instructs(found: RuleMatch) -> Statement | None:
    what = LAST.sub("", found["what"])
    if (
        len(what) < 3
        or len(what) > 80
        or re.match("再说|有空|有机会|会|我(?!的)|还|的|想|就这样|见|慢慢|可能|再|大家|他|她|没|如果|生活|日子", what)
    ):
        return None
    return INSTRUCTION.of(
        f"用户要求助手{found['how']}{third_person(what)}。".replace("助手你", "助手").replace("助手助手", "助手")
    )


_HOW = (
    "(?P<how>(?:真的|真|周末|也|都|一直|很|最|特别|非常|比较|超级|超|更|还|从小就?|平时|平常|就"
    "|挺|蛮|十分|尤其|格外|实在|最近|其实|个人|确实|打心底|本来就|一向|向来|周末|下班后|不太"
    "|不怎么|不大|不是很|也不){0,3})"
)

RULES: RuleTable = rules(
    (r"我最(?P<verb>喜欢|爱)的(?P<of>[^，,是]{1,12})(?:是|：|:)(?P<what>.{1,30})$", _favourite),
    (
        (
            rf"我{_HOW}(?P<verb>不喜欢|喜欢|热爱|偏爱|讨厌|受不了|不爱吃|不爱喝|不爱|爱吃|爱喝|爱看|爱听"
            rf"|爱玩|痛恨|酷爱|痴迷|迷恋|偏好|怕|习惯用|倾向于用?|爱)(?P<what>.{{1,40}})$"
        ),
        _likes,
    ),
    (
        r"我(?:的)?(?:业余)?(?P<k>爱好|兴趣|兴趣爱好|兴趣)(?:是|有|包括)(?P<what>.{2,30})$",
        says(LIKING, "用户的{k}是{what}。", 30),
    ),
    (
        (
            r"(?:请你?|麻烦你?|拜托|希望你|我希望你|我要你|你){0,2}(?:以后|今后|从现在(?:开始|起)|从今以后"
            r"|从今往后|往后|从此|接下来)(?:的|所有|每次)?(?:请|你|您|都|要|就|也|的|回答|回复|在|跟我"
            r"|和我|给我|聊天|对话|时|中|里|说话|，|,){0,6}?(?P<how>都|请|一律|统一|只|先)?(?P<what>(?:都"
            r"|请|一律|统一|只|先|不要|别|用|叫|称呼|回答|回复|给|写|说|跟我|和我|每|尽量|必须|始终|把"
            r"|直接|说话|代码|提醒)(?!了).{2,80})$"
        ),
        lambda found: (
            INSTRUCTION.of(f"用户要求助手以后{found['how'] or ''}{third_person(LAST.sub('', found['what']))}。")
            if not re.search("我(?:会|想|要|打算|再|也|都)", found["what"])
            else None
        ),
    ),
    (
        (
            r"(?:请你?|麻烦你?|你|希望你|我希望你|我要你|拜托){0,2}(?P<how>总是|始终|永远(?!不要放)"
            r"|每次都?|一律|务必每次|每次回答(?:时|都|我|之前|前)*|每次回复(?:时|都|我|之前|前)*"
            r"|所有回答都|任何时候都)(?P<what>(?:都|要|请|先|用|不要(?=用|使用|加|给|说|叫|回答|回复|写"
            r"|发)|别(?=用|使用|加|给|说|叫|回答|回复|写|发)|给|写|以|在|保持|附上|加上|使用|回答|回复|叫"
            r"|注明|标注).{2,60})$"
        ),
        _instructs,
    ),
    (
        (
            r"(?P<how>不要再|别再|永远不要|千万不要|绝对不要|永远别)(?P<what>(?:用|叫|给我|跟我|使用|发"
            r"|推荐|提|加|说|回复|回答|写).{2,50})$"
        ),
        _instructs,
    ),
)
