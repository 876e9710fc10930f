"""Tells which single-valued attribute a memory item sets, and whose."""

import re
from collections.abc import Callable

from ctxwrap.language.lexicon import ATTRIBUTE_SYNONYMS, KNOWN_PLACES, PLURAL_RELATIONS, SINGLE_RELATIONS, WORD_SYNONYMS
from ctxwrap.language.patterns import folded, has_any, lazy_pattern
from ctxwrap.language.vocabulary import parse_pairs

MAX_READ = 300
"""Longer content states more than one fact."""

_UNCERTAIN = lazy_pattern(
    r"\b(?:not|never|no longer|used to|formerly|previously|former|was(?! born| raised| moved| set to)|were|had"
    r"|wants? to (?!be called|be addressed)|would|wish\w*|hopes?|hoping"
    r"|plans?|planning|might|may(?! \d)|could|should|considers?|considering|thinking|thinks"
    r"|visit\w*|temporar\w+|maybe|perhaps|probably|possibly"
    r"|if|until|will|going to|intends?|dreams?|whether|unsure|also|another|second|or|sometimes"
    r"|previous|once|soon|moving|looking|grew up"
    r"|one of|some of|besides|as well as|too|says|said|claims|believes|if|when|while|before"
    r"|occasionally|summers?|winters?|weekends?|partly|half|currently staying)\b"
    r"|n't\b|\?|;|\. \w|想|打算|计划|可能|也许|或许|以前|曾|之前住|不|没|希望(?!助手|被|用)|准备"
    r"|考虑|将|会(?!计|议|员|说)|如果|小时候|长大|暂|临时|出差|旅[行游](?!的?预算)|也|另外|还有"
    r"|或者|原来|偶尔|有时|前公司|听说|吗|。."
)
_SAME = dict(pair.split(":") for pair in WORD_SYNONYMS.split())

_PART = r"[A-ZÀ-ÖØ-Þ][\w'\-]{1,24}"
_WHO = (
    rf"(?:(?:[Tt]he )?[Uu]ser(?:(?P<s>'s|s') (?:(?P<one>(?i:{'|'.join(SINGLE_RELATIONS.split())}))"
    rf"(?:,? {_PART},?)?|(?P<some>(?i:{'|'.join(PLURAL_RELATIONS.split())})),? (?P<called>{_PART}),?))?"
    rf"|(?P<name>(?!The\b|User\b|Home\b|Name\b|Age\b|They\b|It\b){_PART}(?: {_PART})?))"
)
_NOW = r"(?: (?:now|currently|has|have|recently|just|still|always|finally)){0,3}"
_PROPER = rf"(?:the )?{_PART}(?:[ \-](?:(?:de|of|am|upon|sur|do|da|la) )?{_PART}){{0,3}}"
_PLACE = rf"(?:(?:downtown|central|(?:north|south|east|west)(?:ern)?) )?{_PROPER}(?:, {_PROPER}){{0,2}}"
_END = (
    r"(?: (?:now|currently|since .{3,30}|in \d{4}|last (?:week|month|year)|this (?:week|month"
    r"|year)|with (?:her|his|their) .{3,40}|for work))?\.?$"
)

Slot = Callable[[re.Match[str]], str]


def slot_of(content: str, user: str = "") -> str:
    """Return the attribute that the content sets, such as `user:home`, or "" if several values can coexist.

    `user` is the user's name, if known; a person with another name is somebody else.
    """
    text = " ".join(content[: MAX_READ + 1].replace("’", "'").split())
    if text.isascii() and not has_any(folded(text), _HINTS):  # most contents set no attribute
        return ""
    if not text or len(text) > MAX_READ or _UNCERTAIN.search(text.rstrip(".。 ")):
        return ""
    for pattern, slot in _RULES:
        if (found := pattern.match(text)) and (attribute := slot(found)):
            return f"{_owner(found, user)}:{attribute}" if "who" in pattern.groupindex else attribute
    return ""


def name_in(content: str) -> str:
    """Return the user's name if the content states it, else ""."""
    text = " ".join(content[:MAX_READ].replace("’", "'").split())
    found = _NAMES.match(text)
    return found["called_so"] or found["zh"] if found and slot_of(content) == "user:name" else ""


def _owner(found: re.Match[str], user: str) -> str:
    who = found["who"].strip()
    if zh := _ZH_KIN.fullmatch(who):
        return _SAME.get(zh["kin"], zh["kin"])
    groups = found.groupdict()
    if one := groups.get("one"):
        return _SAME.get(one.lower(), one.lower())
    if some := groups.get("some"):
        return f"{some.lower()} {found['called'].lower()}"
    name = groups.get("name")
    if not name or name.lower() in {user.lower(), user.lower().split(" ")[0] if user else ""}:
        return "user"
    return name.lower()


_ZH_KIN = lazy_pattern(
    "(?:该)?用户的?(?P<kin>妈妈|妈|母亲|爸爸|爸|父亲|老婆|妻子|太太|老公|丈夫|女朋友|女友|男朋友|男友)"
)
_ZH_WHO = "(?P<who>(?:该)?用户(?:的?(?:妈妈|妈|母亲|爸爸|爸|父亲|老婆|妻子|太太|老公|丈夫|女朋友|女友|男朋友|男友))?)"
_NAMES = lazy_pattern(
    rf"(?:(?:The |the )?[Uu]ser(?:'s (?:full )?name is| is (?:called|named)) |Name: )"
    rf"(?P<called_so>{_PART}(?: {_PART}){{0,3}})\.?$|(?:用户(?:的名字是|的名字叫|名叫|叫)|姓名：)"
    rf"(?P<zh>[\u4e00-\u9fffA-Za-z· ]{{2,20}})。?$"
)


def _fixed_slot(attribute: str) -> Slot:
    return lambda found: attribute


def _normalise_subject(text: str) -> str:
    """Normalise what an attribute belongs to."""
    words = re.findall(r"[\w'\-]+", text.lower())
    kept = [
        word
        for word in words
        if word
        not in {"the", "a", "an", "my", "their", "his", "her", "our", "user's", "users", "all-time", "absolute", "this"}
    ]
    name = " ".join(_SAME.get(word, word) for word in kept)
    return re.sub("^(?:用户的?|这个|这次的?|该)", "", name)


def _moved(found: re.Match[str]) -> str:
    place = found["place"].lower().removeprefix("the ")
    return (
        "home" if place in KNOWN_PLACES or place.split(",")[0] in KNOWN_PLACES or ", " in place or found["from"] else ""
    )


def _favourite(found: re.Match[str]) -> str:
    what = _normalise_subject(found["of"])
    several = re.search(r" and |, |、|和", found["what"]) or what in {"part", "thing", "one"}
    return "" if several or not what else f"favourite:{what}"


def _deadline(found: re.Match[str]) -> str:
    """Return `project:deadline` or the deadline of the named subject; without a subject it is ambiguous."""
    what = _normalise_subject(found["of"] or "").removesuffix("'s").removesuffix("的")
    if not what or len(what.split()) > 6:
        return ""
    return "project:deadline" if what in ("project", "项目") else f"user:deadline:{what}"


def _budget(found: re.Match[str]) -> str:
    what = _normalise_subject(found["of"] or found["kind"] or "").removesuffix("'s").removesuffix("的")
    if re.search(r"\d.* (?:for|per|a|on|each) ", found[0]):
        return ""  # a share of the budget may have its own value
    if what in ("project", "项目"):
        return "project:budget"
    return f"user:budget:{what}" if what else "user:budget"


def _born(found: re.Match[str]) -> str:
    if found["place"].split(",")[0].lower() in KNOWN_PLACES or not re.search(
        r"\d|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec", found["place"]
    ):
        return "birthplace"
    return "birth year" if re.fullmatch(r"\d{4}", found["place"]) else "birthday"


def _home_zh(found: re.Match[str]) -> str:
    place = found["place"]
    unknown = re.search("[A-Za-z]", place) and place.lower() not in KNOWN_PLACES
    return "" if unknown or re.search("和|、|的|附近|[上里边]$", place) else "home"


def _employer_zh(found: re.Match[str]) -> str:
    place = found["place"]
    known = re.search(
        "[A-Za-z]|公司|大学|医院|银行|集团|学校|中学|小学|研究所|研究院|事务所|律所|厂|局$|腾讯|阿里"
        "|字节|百度|华为|京东|美团|小米|网易|谷歌|微软|苹果|特斯拉|西门子|亚马逊",
        place,
    )
    return "employer" if known and not re.search("一家|某|的|和|、", place) else ""


def _attribute(found: re.Match[str]) -> str:
    name = _SAME_ATTRIBUTE.get(name := found["attribute"].lower().strip(), name)
    return (
        "" if re.search(r" and |, (?!\w+ \d)", found["what"]) and name not in ("home", "address", "birthday") else name
    )


_SAME_ATTRIBUTE = parse_pairs(ATTRIBUTE_SYNONYMS)
_ATTRIBUTES = (
    "name|full name|home|location|city|residence|home city|employer|company|job|job title"
    "|profession|occupation|age|birthday|date of birth|timezone|time zone"
    "|preferred language|native language|mother tongue|first language|email|email address|e-mail"
    "|work email|phone number|phone|address|home address|pronouns|height|weight"
    "|shoe size|blood type|nickname|last name|first name|surname|middle name|birthplace"
    "|place of birth|marital status"
)
_HINTS = (
    *("lives", "living", "resides", "based", "located", "settled", "moved", "relocated", "called", "named"),
    *("works", "working", "employed", "started", "joined", "turned", " born ", "married", "single", "divorced"),
    *("engaged", "widowed", "vegan", "vegetarian", "pescatarian", "omnivore", "favorite", "favourite", "prefers"),
    *("wants", "budget", "deadline", " due ", "project's", *(f" is {digit}" for digit in range(10)), " is now "),
    *_ATTRIBUTES.split("|"),
)
"""Every rule for English needs one of these."""
_ZH_ATTRIBUTES = "姓名|名字|年龄|生日|职业|母语|邮箱|电话|手机号|住址|地址|身高|体重|血型|时区|居住地|现居地|雇主"
_VALUE = (
    r"(?P<what>(?!(?:unknown|private|secret|on the|in the|hard|difficult|common|stressful|boring"
    r"|far|near|important|small|big|nice|broken)\b)[^.;]{1,60}(?:\.[^\s][^.;]{1,30}){0,3})"
)
_LANGUAGE = r"(?P<language>[A-Z][a-z]{3,12})"
_ZH = "[\u4e00-\u9fffA-Za-z·]"

_RULES: tuple[tuple[re.Pattern[str], Slot], ...] = tuple(
    (lazy_pattern(pattern), slot)
    for pattern, slot in (
        # home
        (
            rf"(?P<who>{_WHO}){_NOW} (?:lives|resides|is living|is based|is located|settled"
            rf"|has settled) in (?:a (?:small |quiet |little )?(?:village|town|suburb|city) (?:near|of"
            rf"|in) )?{_PLACE}{_END}",
            _fixed_slot("home"),
        ),
        (
            rf"(?P<who>{_WHO}){_NOW} (?:moved|relocated)(?: back)?(?P<from> from {_PROPER})? to "
            rf"(?P<place>{_PLACE}){_END}",
            _moved,
        ),
        (rf"(?P<who>)(?:Lives|Living|Based|Resides) in {_PLACE}{_END}", _fixed_slot("home")),
        # name, work
        (
            rf"(?P<who>{_WHO})(?:'s (?:full )?name is| is (?:called|named)) {_PART}(?: {_PART}){{0,3}}\.?$",
            _fixed_slot("name"),
        ),
        (
            rf"(?P<who>{_WHO}){_NOW} (?:works|is working|is employed) (?:at|for|by) (?!an?\b){_PROPER}{_END}",
            _fixed_slot("employer"),
        ),
        (
            rf"(?P<who>{_WHO}){_NOW} (?:started (?:working )?at|started a new job at) "
            rf"(?!the\b){_PROPER}{_END}",
            _fixed_slot("employer"),
        ),
        (
            rf"(?P<who>{_WHO}){_NOW} (?:works|is working|is employed) as an? [\w \-/]{{3,50}}(?: (?:at|for"
            rf"|in) [\w \-&]{{2,40}})?\.?$",
            _fixed_slot("job"),
        ),
        (rf"(?P<who>{_WHO}){_NOW} joined (?!the\b){_PROPER} as an? [\w \-]{{3,40}}{_END}", _fixed_slot("employer")),
        # years
        (rf"(?P<who>{_WHO}){_NOW} (?:is|turned)(?: now)? (?P<age>\d{{1,3}})(?: years? old)?\.?$", _fixed_slot("age")),
        (rf"(?P<who>{_WHO}) was born (?:in|on) (?P<place>[\w ,.\-]{{3,40}}?)\.?$", _born),
        (
            rf"(?P<who>{_WHO}) is(?: now| currently)? (?:married|single|divorced|engaged|widowed)\.?$",
            _fixed_slot("marital status"),
        ),
        (rf"(?P<who>{_WHO}) is(?: now)? (?:an? )?(?:vegan|vegetarian|pescatarian|omnivore)\.?$", _fixed_slot("diet")),
        # named attributes
        (
            rf"(?P<who>{_WHO})'s (?:new |current )?(?P<attribute>(?i:{_ATTRIBUTES}))(?: is| are|:|=)"
            rf"(?: now)? {_VALUE}\.?$",
            _attribute,
        ),
        (rf"(?P<who>)(?:User )?(?P<attribute>(?i:{_ATTRIBUTES}))(?:: | = ){_VALUE}\.?$", _attribute),
        (
            rf"(?P<who>{_WHO})'s (?:all-time |absolute |new )?(?i:favou?rite) (?P<of>[\w' \-]{{2,40}}?) is"
            rf"(?: now)? (?P<what>[^.;]{{1,80}})\.?$",
            _favourite,
        ),
        (
            rf"(?P<who>{_WHO}) (?:prefers|wants) (?:(?:the assistant )?to (?:always )?(?:answer|reply"
            rf"|respond|write|speak|be answered|get answers)|answers|replies|responses) in {_LANGUAGE}"
            rf"(?: from now on)?\.?$",
            _fixed_slot("language"),
        ),
        # money and time
        (
            r"(?:(?:The |the )?[Uu]ser(?:'s| has an?)|The|Our|Total)? ?(?P<kind>(?i:(?:project|monthly"
            r"|weekly|yearly|annual|travel|wedding|marketing)(?:'s)? )?)(?i:budget)(?: for "
            r"(?P<of>[\w' \-]{3,50}?))?(?: is| of|:| was raised to| was set to| increased to"
            r"| has been raised to| =)(?: now| about| around| up to)? \D{0,6}\d[^;]{0,40}$",
            _budget,
        ),
        (
            r"(?:The |User's |The user's |Our |New )?(?P<of>(?:[\w\-']{2,20} ){0,4})(?i:deadline)(?: is"
            r"| has been moved to| moved to|:| was moved to| is now| changed to"
            r"| extended to) [^.;]{3,50}\.?$",
            _deadline,
        ),
        (
            r"(?:The )?(?i:deadline) (?:for|of) (?P<of>[\w' \-]{3,60}?)(?: is| has been moved to| moved to"
            r"|:| was moved to| is now| changed to| extended to) [^.;]{3,50}\.?$",
            _deadline,
        ),
        (
            r"(?P<of>(?:The |User's |Our )[\w' \-]{3,50}?) (?:is|are)(?: now)? due (?:on |by "
            r"|in )?[^.;]{3,50}\.?$",
            _deadline,
        ),
        (
            r"(?:The )?[Pp]roject's (?P<of>name|code name|database|lead|manager|status|version"
            r"|start date) is(?: now)? [^.;]{2,60}\.?$",
            lambda found: f"project:{found['of']}",
        ),
        # Chinese
        (
            rf"{_ZH_WHO}(?:现在|目前|已经|已|如今|最近|去年|今年|刚|一直)*(?:住在|居住在|定居在?|现居|家在"
            rf"|常住|搬到了?+|搬去了?+|搬回了?+|移居)(?!一起|酒店|学校|宿舍|医院|隔壁|楼|一|家|附近|公司|新家|新房|新公司)"
            rf"(?P<place>{_ZH}{{2,12}}?)(?:了)?。?$",
            _home_zh,
        ),
        (rf"{_ZH_WHO}(?:的名字是|的名字叫|名字是|名叫){_ZH}{{2,16}}。?$", _fixed_slot("name")),
        (
            rf"{_ZH_WHO}叫(?![了他她它外车人大孩助不来])(?:[\u4e00-\u9fff]{{2,4}}|[A-Z][A-Za-z]{{1,16}})。?$",
            _fixed_slot("name"),
        ),
        (rf"{_ZH_WHO}(?:现在|目前|如今)*在(?P<place>{_ZH}{{2,16}}?)(?:工作|上班|任职|就职)(?:了)?。?$", _employer_zh),
        (rf"{_ZH_WHO}(?:现在|目前)?(?:跳槽到了?|加入了?|入职了?)(?P<place>{_ZH}{{2,12}})。?$", _employer_zh),
        (rf"{_ZH_WHO}(?:的职业是|的工作是|现在的职业是|职业是){_ZH}{{2,14}}。?$", _fixed_slot("job")),
        (rf"{_ZH_WHO}(?:今年|现在|刚满)?(?:\d{{1,3}}|[一二三四五六七八九十]{{1,3}})岁(?:了)?。?$", _fixed_slot("age")),
        (
            rf"(?P<who>(?:该)?用户)的?(?P<attribute>{_ZH_ATTRIBUTES})(?:是|为|：|:|改为|改成了?)"
            rf"(?P<what>[^，。]{{1,40}})。?$",
            _attribute,
        ),
        (rf"(?P<who>)(?P<attribute>{_ZH_ATTRIBUTES})(?:：|:)\s?(?P<what>[^，。]{{1,40}})。?$", _attribute),
        (rf"{_ZH_WHO}(?:出生于|生于)(?:\d{{4}}年\d{{1,2}}月\d{{1,2}}日)。?$", _fixed_slot("birthday")),
        (rf"{_ZH_WHO}(?:出生于|生于|出生在)(?:\d{{4}}年?)。?$", _fixed_slot("birth year")),
        (rf"{_ZH_WHO}(?:出生于|生于|出生在){_ZH}{{2,10}}。?$", _fixed_slot("birthplace")),
        (rf"(?P<who>(?:该)?用户)最(?:喜欢|爱)的(?P<of>{_ZH}{{1,8}}?)是(?P<what>[^，。]{{1,30}})。?$", _favourite),
        (
            r"(?:用户的?)?(?P<of>[^，。是预]{0,12}?)(?P<kind>)的?预算(?:现在|改|调整|提高|增加|是|为|：|:"
            r"|到|成|了|大约|最多){1,4}[^，。]{0,4}(?:\d|[一二三四五六七八九十两百千万])[^，。]{0,14}。?$",
            _budget,
        ),
        (
            r"(?:用户的?)?(?P<of>[^，。是]{0,14}?)的?(?:截止日期|截止时间|最后期限)(?:现在|改|推迟|提前"
            r"|延期|是|为|：|:|到|成|了){1,4}[^，。]{2,20}。?$",
            _deadline,
        ),
        (
            r"(?P<who>(?:该)?用户)(?:要求|希望)(?:助手)?(?:以后|始终|都|总是|被|一律)*用(?:中文|英文|英语"
            r"|德语|法语|西班牙语|日语|韩语|俄语|意大利语)(?:来)?(?:回答|回复|交流)(?:用户)?。?$",
            _fixed_slot("language"),
        ),
    )
)
