"""Splits a Chinese sentence into clauses and applies the rules to each."""

import re

from ctxwrap.language.chinese.intents import PLAN_RULES, PREFERENCE_RULES
from ctxwrap.language.chinese.persons import HEALTH_RULES, PERSON_RULES, WORK_RULES
from ctxwrap.language.chinese.values import third_person
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.rules import LIFE, MASK, TASK, AssertedSentence, RuleTable, Statement, first_statement

_CLAUSE_BREAK = lazy_pattern(
    "(?<!起)(?<!以后)(?<!开始)(?<!今后)(?:[，,：:、]+(?=我|你|请|以后|记住|别忘|如果|能|有|该|怎"
    "|对|住|喜欢|不|今年|是|在|养|来自|讨厌|爱|职业|预算|截止|最|也|还|另外|平时|现在|目前|想|帮"
    "|每次|但|而|所以|因为|老家|家|从|就|那|推荐)|[，,]|\\s)"
)

_OPENER = lazy_pattern(
    "(?:你好|您好|大家好|嗨|哈喽|哈啰|hi|hello|对了|另外|其实|顺便(?:说|提)?(?:一下|一句)?|还有"
    "|而且|并且|同时|但是|不过|但|所以|因为|由于|毕竟|然后|嗯|哦|是这样的"
    "|补充(?:一下|一点)?|说明(?:一下)?|(?:先)?(?:自我)?介绍一下(?:自己)?|(?:跟|和)你说(?:一下)?"
    "|告诉你|我跟你说|提前说一下|背景|更新(?:一下)?|更正(?:一下)?|备注|坦白说|说实话|老实说|总之"
    "|首先|其次|最后"
    "|请注意|注意|提醒一下|我想说的是|需要说明的是|事实上|反正|既然|考虑到|鉴于|那么|好的|好|是的"
    "|嘿|p\\.?s\\.?)[，,：:！!、 ]*",
    re.I,
)

_SCOPE = lazy_pattern(
    "如果|要是|倘若|万一|除非|若是|假使|比如|例如|譬如|听说|据说|传说|梦见|梦到|仿佛|好像|似乎"
    "|希望(?!你)|但愿|本来|原本|差点"
    "|(?:他|她|他们|她们|人|老师|医生|妈|爸|妈妈|爸爸|朋友|同事|老板|领导|客户|老婆|老公|女儿"
    "|儿子|主角|男主|女主|主人公|歌里|书里|电影里|小说里|里面)(?:总|又|都|就|还|经常|老|曾|刚才"
    "|昨天)?(?:说|问|写|告诉|觉得|以为|认为|讲|唱|喊|表示|回答|提到)"
)

_DOUBT = lazy_pattern(
    "可能|也许|或许|我大概是|应该是|不确定|不知道|不记得|差不多是|曾经|以前|之前[住在喜爱是]|从前"
    "|过去|小时候|当年|那时|本该|以为|想当|吗$|么$|呢$|什么|怎么|怎样|哪|谁|是不是|有没有|能不能"
    "|要不要|会不会|该不该"
    "|可不可以|多少|几[个点岁号月]|为何|为什么|还没(?:有)?决定|没(?:有)?决定|犹豫|不如|好不好"
    "|行不行|对不对|了吧$|对吧$|是吧$|哈哈|的话|才怪"
    f"|{MASK}"
)

_TAG = lazy_pattern("^(?:对吧|是吧|对吗|是吗|对不对|是不是|没错吧|你信吗|好吗|行吗)$")

_SUBJECTLESS = lazy_pattern(
    "(?:现在|目前|平时|也|还|今年|一直|就|同时|而且|并且|并|但|但是|不过|最|特别|非常|很|比较"
    "|从小)*(?:住在|住|定居|在.{2,20}?(?:工作|上班|当|做|读|上学|念)|对.{1,20}?过敏|喜欢|热爱"
    "|爱吃|爱喝|讨厌|不喜欢|不吃|不喝|不能吃|"
    "是(?:一|个|名|位|素|全职|自由|[\u4e00-\u9fff]{1,8}(?:师|员|生|人|者|家))|今年\\d|\\d{1,2}岁"
    "|有(?:一|两|三|个)|养了?|来自|单身|已婚|离异|从事|职业是|老家|吃素|患有|家住|家在|会说|正在"
    "|最喜欢|擅长)"
)


def statements_of(sentence: AssertedSentence) -> list[Statement]:
    text = _without_openers(sentence.text)
    scope = _SCOPE.search(text)
    clauses = _clauses(text, scope.start() if scope else len(text), sentence.asks)
    found: list[Statement] = []
    own, asked = False, False
    for clause in clauses:
        asked = asked or bool(_REMEMBER_LEAD.search(clause))
        clause = _without_openers(_REMEMBER_LEAD.sub("", clause))
        if clause and not clause.startswith(("我", "请")) and own and _SUBJECTLESS.match(clause):
            clause = f"我{clause}"
        statement = _statement_of(clause, asked)
        own = clause.startswith(("我", "本人", "叫我")) if clause else own
        asked = asked and not clause
        found += [statement] if statement else []
    return found


def _clauses(text: str, scope: int, asks: bool) -> list[str]:
    pieces: list[str] = []
    start = 0
    for joint in [*_CLAUSE_BREAK.finditer(text), None]:
        end = joint.start() if joint else len(text)
        if end > scope:
            return pieces
        pieces.append(text[start:end])
        start = joint.end() if joint else end
    return _before_question(pieces) if asks else pieces


def _before_question(pieces: list[str]) -> list[str]:
    return [] if _TAG.match(pieces[-1]) or len(pieces) < 2 else pieces[:-1]


def _without_openers(text: str) -> str:
    for _ in range(4):
        opener = _OPENER.match(text)
        if not opener or not opener[0]:
            return text
        text = text[opener.end() :]
    return text


_REMEMBER_LEAD = lazy_pattern(
    "^(?:请|麻烦|拜托|你|您|一定|务必|要|帮我|帮忙|给我|千万|以后){0,4}(?:记住|记一下|记下来?"
    "|牢记|记得|别忘了|不要忘了|别忘记|不要忘记)(?!了$|你的|他|她|这|那)(?:一件事|一点|一下|哦|啊"
    "|了)?[，,：:]?"
)


def _statement_of(clause: str, asked: bool) -> Statement | None:
    clause = clause.strip(" ，,：:、").rstrip("哦啊呀哈啦哟嘛")
    if not clause or _DOUBT.search(clause):
        return None
    return first_statement(clause, _RULES) or (_remembered(clause) if asked else None)


_ACTION = lazy_pattern("(?:要|去|给|把|在|明天|后天|周|下周|提醒|买|带|交|打|发|寄|订|付|吃药|关|拿|取)")


def _remembered(clause: str) -> Statement | None:
    if len(clause) < 3 or re.match("你|您|他|她|这|那|它|了|吧", clause):
        return None
    if not clause.startswith("我") and _ACTION.match(clause):
        return TASK.of(f"用户要记得{third_person(clause)}。")
    return (
        LIFE.of(f"{third_person(clause)}。")
        if re.search("我|\\d|[一二三四五六七八九十两]|[A-Za-z]|密码|服务器|公司|团队|客户", clause)
        else None
    )


_RULES: RuleTable = (*PERSON_RULES, *WORK_RULES, *HEALTH_RULES, *PREFERENCE_RULES, *PLAN_RULES)
