"""Plans: decisions, budgets, deadlines, tasks and what occupies the user for some weeks."""

import re

from ctxwrap.language.chinese.values import LAST, plain, third_person
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.statement import BUDGET, DEADLINE, DECISION, PROJECT, TASK, RuleMatch, RuleTable, Statement, rules

_NUMBER = lazy_pattern(
    "\\d|[一二三四五六七八九十两百千万]+(?:元|块|万|千|百|美元|欧元|美金|英镑|港币|日元|人民币|左右|以内)"
)


def _budget(found: RuleMatch) -> Statement | None:
    what = LAST.sub("", found["what"])
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
    what, of = LAST.sub("", found["what"]), re.sub("^(?:我|我们)(?:的)?", "", found["of"] or "").removesuffix("的")
    if not _DATED.search(what) or len(what) > 24 or len(of) > 16:
        return None
    return DEADLINE.of(f"{third_person(of)}{'的' if of else ''}截止日期是{what}。")


def _decided(found: RuleMatch) -> Statement | None:
    what = LAST.sub("", found["what"])
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
    what = LAST.sub("", found["what"])
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
    what = LAST.sub("", found["what"])
    return (
        TASK.of(f"用户希望被提醒：{third_person(what)}。")
        if 2 < len(what) <= 60 and not re.match("了|过|这|那|一下$", what)
        else None
    )


RULES: RuleTable = rules(
    (
        (
            r"(?P<of>[^，,是]{0,14}?)(?:的)?(?:总)?预算(?:总共|一共|大概|大约|最多|只有|上限|差不多|定在"
            r"|控制在|是|为|在|有|不超过|：|:| |改成了?|改为|调整为|调整到|提高到|降到|(?=\d))+"
            r"(?P<what>.{1,30})$"
        ),
        _budget,
    ),
    (
        (
            r"(?P<of>[^，,是]{0,18}?)(?:的)?(?:截止日期|截止时间|截稿日期|交稿日期|最后期限|deadline|ddl"
            r"|DDL|Deadline)(?:就|是|为|在|：|:| |改到了?|推迟到了?|提前到了?|改成了?|定在了?)+"
            r"(?P<what>.{2,24})$"
        ),
        _deadline,
    ),
    (r"(?P<of>[^，,我是]{2,14}?)(?P<what>(?:" + _WHEN + r")[^，,]{0,8}?)(?:之前|前)?(?:截止|到期)$", _deadline),
    (
        (
            r"(?P<who>我们团队|我们公司|我们组|我们|咱们|我|团队|公司)(?:和.{1,6}|跟.{1,6})?(?:已经|最终"
            r"|最后|终于|刚刚|刚|都|一致|商量后|讨论后|讨论完|昨天|今天|开会|还是|一起|现在|经过讨论"
            r"|考虑再三|，){0,3}(?P<verb>决定|选定|敲定|商定)(?:了|好)?(?:要)?(?P<what>.{2,50})$"
        ),
        _decided,
    ),
    (
        (
            r"(?:那|那么)?(?:我们|咱们)?(?P<who>)(?:那)?就(?:这么定了)?(?P<verb>用|选|选用|采用)"
            r"(?P<what>[A-Za-z][\w.+# ]{1,24})(?:吧|了|好了)$"
        ),
        lambda found: DECISION.of(f"用户决定{found['verb']}{LAST.sub('', found['what'])}。"),
    ),
    (
        (
            r"(?:我|我们|咱们)(?:还|也|这周|最近|真的|今年|另外)?(?P<verb>必须|需要|得|要|还要|还得"
            r"|应该要)(?P<what>.{5,60})$"
        ),
        _task,
    ),
    (r"我(?P<verb>)(?P<what>(?:" + _WHEN + r").{0,12}?(?:要|得|必须|需要|有(?:个|一个|一场|场|次)?).{2,40})$", _task),
    (r"(?:请|麻烦|到时候|记得|帮我|你|要|，){0,3}提醒我(?P<what>.{3,60})$", _reminder),
    (
        (
            r"我(?:最近|现在|目前|一直|今年|还|也){0,2}?(?:正在|在)(?P<verb>学习|学(?![校院生长会])|准备|备考|筹备|写|策划"
            r"|装修|开发|攒钱买|研究|减肥|健身|戒烟|戒酒|做|计划)(?P<what>.{2,30})$"
        ),
        lambda found: (
            PROJECT.of(f"用户正在{found['verb']}{third_person(plain(found['what'], 30))}。")
            if plain(found["what"], 30)
            and not re.match("饭|作业|事|梦|家务|习$|菜|什么|什|你|这|那", found["what"])
            and not re.search("[你他她]", found["what"])
            else None
        ),
    ),
)
