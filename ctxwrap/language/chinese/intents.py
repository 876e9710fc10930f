"""Rules about preferences, instructions, decisions, budgets, deadlines and tasks."""

import re

from ctxwrap.language.chinese.values import PARTICLES, template_rule, third_person, trim_clause
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.rules import (
    BUDGET,
    DEADLINE,
    DECISION,
    INSTRUCTION,
    LIKING,
    PROJECT,
    TASK,
    RuleMatch,
    RuleTable,
    Statement,
    compile_rules,
)

_NO_PREFERENCE = lazy_pattern(
    ".*(?:方案|建议|主意|想法|版本|选项|回答|答案|这样|那样|一点|多一些|一些)$|(?:上|你|他|她"
    "|吃醋|面子|谁|了|过|过你|来|去|的是|莫|怎|咋)"
)


def _likes(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"], 40)
    if not what or _NO_PREFERENCE.match(what) or re.search("[你您他她]", what):
        return None
    return LIKING.of(f"用户{found['how']}{found['verb']}{third_person(what)}。")


def _favourite(found: RuleMatch) -> Statement | None:
    what, of = trim_clause(found["what"], 30), found["of"]
    if not what or re.search("[你他她这那]", of) or re.match("部分|一点|地方|就|是", of):
        return None
    return LIKING.of(f"用户最{found['verb']}的{of}是{third_person(what)}。")


def _instructs(found: RuleMatch) -> Statement | None:
    what = PARTICLES.sub("", found["what"])
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

PREFERENCE_RULES: RuleTable = compile_rules(
    (r"我最(?P<verb>喜欢|爱)的(?P<of>[^，,是]{1,12})(?:是|：|:)(?P<what>.{1,30})$", _favourite),
    (
        rf"我{_HOW}(?P<verb>不喜欢|喜欢|热爱|偏爱|讨厌|受不了|不爱吃|不爱喝|不爱|爱吃|爱喝|爱看|爱听"
        rf"|爱玩|痛恨|酷爱|痴迷|迷恋|偏好|怕|习惯用|倾向于用?|爱)(?P<what>.{{1,40}})$",
        _likes,
    ),
    (
        r"我(?:的)?(?:业余)?(?P<k>爱好|兴趣|兴趣爱好|兴趣)(?:是|有|包括)(?P<what>.{2,30})$",
        template_rule(LIKING, "用户的{k}是{what}。", 30),
    ),
    (
        r"(?:请你?|麻烦你?|拜托|希望你|我希望你|我要你|你){0,2}(?:以后|今后|从现在(?:开始|起)|从今以后"
        r"|从今往后|往后|从此|接下来)(?:的|所有|每次)?(?:请|你|您|都|要|就|也|的|回答|回复|在|跟我"
        r"|和我|给我|聊天|对话|时|中|里|说话|，|,){0,6}?(?P<how>都|请|一律|统一|只|先)?(?P<what>(?:都"
        r"|请|一律|统一|只|先|不要|别|用|叫|称呼|回答|回复|给|写|说|跟我|和我|每|尽量|必须|始终|把"
        r"|直接|说话|代码|提醒)(?!了).{2,80})$",
        lambda found: (
            INSTRUCTION.of(f"用户要求助手以后{found['how'] or ''}{third_person(PARTICLES.sub('', found['what']))}。")
            if not re.search("我(?:会|想|要|打算|再|也|都)", found["what"])
            else None
        ),
    ),
    (
        r"(?:请你?|麻烦你?|你|希望你|我希望你|我要你|拜托){0,2}(?P<how>总是|始终|永远(?!不要放)"
        r"|每次都?|一律|务必每次|每次回答(?:时|都|我|之前|前)*|每次回复(?:时|都|我|之前|前)*"
        r"|所有回答都|任何时候都)(?P<what>(?:都|要|请|先|用|不要(?=用|使用|加|给|说|叫|回答|回复|写"
        r"|发)|别(?=用|使用|加|给|说|叫|回答|回复|写|发)|给|写|以|在|保持|附上|加上|使用|回答|回复|叫"
        r"|注明|标注).{2,60})$",
        _instructs,
    ),
    (
        r"(?P<how>不要再|别再|永远不要|千万不要|绝对不要|永远别)(?P<what>(?:用|叫|给我|跟我|使用|发"
        r"|推荐|提|加|说|回复|回答|写).{2,50})$",
        _instructs,
    ),
)


_NUMBER = lazy_pattern(
    "\\d|[一二三四五六七八九十两百千万]+(?:元|块|万|千|百|美元|欧元|美金|英镑|港币|日元|人民币|左右|以内)"
)


def _budget(found: RuleMatch) -> Statement | None:
    what = PARTICLES.sub("", found["what"])
    if not _NUMBER.search(what) or len(what) > 30:
        return None
    of = re.sub("^(?:我|我们|咱们)(?:的)?", "", found["of"] or "")
    if len(of) > 14 or re.search("[你他她超]", of):
        return None
    return BUDGET.of(f"用户的{third_person(of)}预算是{what}。")


_WHEN = (
    "今天|明天|后天|大后天|本周|这周|下周|下下周|周[一二三四五六日末天]|星期[一二三四五六日天]"
    "|礼拜[一二三四五六日天]|月底|月初|年底|年前|春节|国庆|中秋|圣诞|元旦|下个?月|这个月|本月"
    "|\\d{1,2}\\s?[月号日]|[一二三四五六七八九十]+[月号日]|\\d{4}年|暑假|寒假|期末"
    "|\\d{1,2}[./-]\\d{1,2}|端午|清明|五一|十一"
)

_DATED = lazy_pattern(_WHEN)


def _deadline(found: RuleMatch) -> Statement | None:
    what, of = PARTICLES.sub("", found["what"]), re.sub("^(?:我|我们)(?:的)?", "", found["of"] or "").removesuffix("的")
    if not _DATED.search(what) or len(what) > 24 or len(of) > 16:
        return None
    return DEADLINE.of(f"{third_person(of)}{'的' if of else ''}截止日期是{what}。")


def _decided(found: RuleMatch) -> Statement | None:
    what = PARTICLES.sub("", found["what"])
    if (
        len(what) < 2
        or len(what) > 50
        or re.match("不了|性|权|你|他|她|这个|那个|好|下来|一切|于|命运|一下|第[一二三]|就是|过", what)
        or re.search("[你您]", what)
    ):
        return None
    who = "用户一方" if found["who"] in ("我们", "咱们", "团队", "我们团队", "公司", "我们公司", "我们组") else "用户"
    return DECISION.of(f"{who}{found['verb']}{third_person(what)}。")


def _task(found: RuleMatch) -> Statement | None:
    what = PARTICLES.sub("", found["what"])
    if (
        not _DATED.search(what)
        or len(what) < 6
        or len(what) > 60
        or re.search("[你您]|睡|想一想|早起|起床|休息|这个|那个|加班", what)
    ):
        return None
    if re.match("今天|今晚|现在|马上|先", what):
        return None
    return TASK.of(f"用户{found['verb']}{third_person(what)}。")


def _reminder(found: RuleMatch) -> Statement | None:
    what = PARTICLES.sub("", found["what"])
    return (
        TASK.of(f"用户希望被提醒：{third_person(what)}。")
        if 2 < len(what) <= 60 and not re.match("了|过|这|那|一下$", what)
        else None
    )


PLAN_RULES: RuleTable = compile_rules(
    (
        r"(?P<of>[^，,是]{0,14}?)(?:的)?(?:总)?预算(?:总共|一共|大概|大约|最多|只有|上限|差不多|定在"
        r"|控制在|是|为|在|有|不超过|：|:| |改成了?|改为|调整为|调整到|提高到|降到|(?=\d))+"
        r"(?P<what>.{1,30})$",
        _budget,
    ),
    (
        r"(?P<of>[^，,是]{0,18}?)(?:的)?(?:截止日期|截止时间|截稿日期|交稿日期|最后期限|deadline|ddl"
        r"|DDL|Deadline)(?:就|是|为|在|：|:| |改到了?|推迟到了?|提前到了?|改成了?|定在了?)+"
        r"(?P<what>.{2,24})$",
        _deadline,
    ),
    (r"(?P<of>[^，,我是]{2,14}?)(?P<what>(?:" + _WHEN + r")[^，,]{0,8}?)(?:之前|前)?(?:截止|到期)$", _deadline),
    (
        r"(?P<who>我们团队|我们公司|我们组|我们|咱们|我|团队|公司)(?:和.{1,6}|跟.{1,6})?(?:已经|最终"
        r"|最后|终于|刚刚|刚|都|一致|商量后|讨论后|讨论完|昨天|今天|开会|还是|一起|现在|经过讨论"
        r"|考虑再三|，){0,3}(?P<verb>决定|选定|敲定|商定)(?:了|好)?(?:要)?(?P<what>.{2,50})$",
        _decided,
    ),
    (
        r"(?:那|那么)?(?:我们|咱们)?(?P<who>)(?:那)?就(?:这么定了)?(?P<verb>用|选|选用|采用)"
        r"(?P<what>[A-Za-z][\w.+# ]{1,24})(?:吧|了|好了)$",
        lambda found: DECISION.of(f"用户决定{found['verb']}{PARTICLES.sub('', found['what'])}。"),
    ),
    (
        r"(?:我|我们|咱们)(?:还|也|这周|最近|真的|今年|另外)?(?P<verb>必须|需要|得|要|还要|还得"
        r"|应该要)(?P<what>.{5,60})$",
        _task,
    ),
    (r"我(?P<verb>)(?P<what>(?:" + _WHEN + r").{0,12}?(?:要|得|必须|需要|有(?:个|一个|一场|场|次)?).{2,40})$", _task),
    (r"(?:请|麻烦|到时候|记得|帮我|你|要|，){0,3}提醒我(?P<what>.{3,60})$", _reminder),
    (
        r"我(?:最近|现在|目前|一直|今年|还|也){0,2}?(?:正在|在)(?P<verb>学习|学(?![校院生长会])|准备|备考|筹备|写|策划"
        r"|装修|开发|攒钱买|研究|减肥|健身|戒烟|戒酒|做|计划)(?P<what>.{2,30})$",
        lambda found: (
            PROJECT.of(f"用户正在{found['verb']}{third_person(trim_clause(found['what'], 30))}。")
            if trim_clause(found["what"], 30)
            and not re.match("饭|作业|事|梦|家务|习$|菜|什么|什|你|这|那", found["what"])
            and not re.search("[你他她]", found["what"])
            else None
        ),
    ),
)
