"""Rules about the user as a person: name, home, family, work and health."""

import re

from ctxwrap.language.chinese.values import (
    COUNT,
    HAN,
    ILLNESS,
    NO_ALLERGEN,
    PARTICLES,
    TIME_ADVERBS,
    TRADES,
    template_rule,
    trim_clause,
)
from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.rules import HEALTH, LIFE, NAME, RuleMatch, RuleTable, Statement, compile_rules

_NAMES = (
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁"
    "魏薛叶阎余潘杜戴夏钟汪田任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎"
    "易常武乔贺赖龚文欧司诸上官慕"
    "严温俞章柳葛洪凌霍翁梅庄倪施骆裴祝祁詹甘岳聂蓝齐殷柯"
)

_A_NAME = (
    rf"(?:[{_NAMES}][{HAN}]{{1,3}}|[小阿老大][{HAN}]{{1,2}}|[A-Z][\w'\-]{{1,20}}"
    rf"(?: [A-Z][\w'\-]{{1,20}}){{0,2}}|[{HAN}]{{1,6}}·[{HAN}]{{1,6}})"
)

_NO_NAME = lazy_pattern(
    ".*(?:来|去|了|吧|过来|起床|师傅|外卖|快递|医生|做|帮|吃饭|不要)$|(?:小声|大声|老板|大家|老师"
    "|大夫|任何|万一|方便|高手|白痴|常常|文件|石头|上来|金牌|于是|许多|何必)"
)


def _named(found: RuleMatch) -> Statement | None:
    name = found["name"]
    return None if _NO_NAME.match(name) else NAME.of(f"用户的名字是{name}。")


_NO_PLACE = lazy_pattern(
    "(?:一起|酒店|宾馆|医院|学校|宿舍|梦|这|那|哪|附近|楼|隔壁|他|她|你|爸|妈|朋友|新家|新公司"
    "|过去|心|希望|痛苦|恐惧|幻想|自己|一个(?:人|梦)|公司|同|对面|前|后|外面|里面|回忆|过|得|不"
    "|家里|着|的|了|校|院|装修|沙发|床|搬|等|办|开会|做|吃|看|修|施工)"
)

_PLACE_END = lazy_pattern(
    "(?:(?:已经|都|快|有){0,2}(?:[一二三四五六七八九十\\d]+多?年|很久|好几年|好多年|很多年|半年|多年))?(?:了|的)?$"
)


def place_in(text: str) -> str:
    place = _PLACE_END.sub("", text.strip())
    return (
        place
        if 1 < len(place) <= 16
        and not _NO_PLACE.match(place)
        and not re.search("的时候|时$|\\d楼|上$|里$|边$|硬盘|期间|旁边的|我|过$|一段|几天|一周|这边出差", place)
        else ""
    )


def _lives(found: RuleMatch) -> Statement | None:
    place = place_in(found["place"])
    return LIFE.of(f"用户住在{place}。") if place else None


_REGIONS = (
    "北京|上海|天津|重庆|河北|山西|辽宁|吉林|黑龙江|江苏|浙江|安徽|福建|江西|山东|河南|湖北|湖南"
    "|广东|海南|四川|贵州|云南|陕西|甘肃|青海|台湾|内蒙古|广西|西藏|宁夏|新疆|香港|澳门|广州|深圳"
    "|成都|杭州|南京|武汉|西安|苏州|长沙|青岛"
    "|大连|厦门|宁波|郑州|沈阳|哈尔滨|昆明|福州|济南|合肥|温州|无锡|东北|潮汕|客家|中国|美国|英国"
    "|法国|德国|日本|韩国|加拿大|澳大利亚|新加坡|马来西亚|俄罗斯|意大利|西班牙|巴西|印度|泰国"
    "|越南|回族|满族|藏族"
)


def _from(found: RuleMatch) -> Statement | None:
    place = place_in(found["place"])
    return LIFE.of(f"用户来自{place}。") if place else None


_KIN = (
    "老婆|妻子|太太|老公|丈夫|先生|爱人|女儿|大女儿|小女儿|儿子|大儿子|小儿子|妈妈|妈|爸爸|爸"
    "|母亲|父亲|哥哥|哥|姐姐|姐|弟弟|妹妹|女朋友|男朋友|女友|男友|未婚妻|未婚夫|孩子|宝宝|奶奶"
    "|爷爷|外婆|外公|姥姥|姥爷|室友|老板|对象|孙子|孙女|侄子|侄女|表哥|表姐|表弟|表妹|岳父|岳母"
    "|公公|婆婆|同桌|闺蜜|双胞胎"
)

_PET = (
    "(?:小|大|老)?(?:狗狗|狗|猫咪|猫|仓鼠|兔子|鹦鹉|乌龟|金毛|柯基|泰迪|橘猫|布偶猫|布偶|英短|马"
    "|龙猫|哈士奇|边牧|柴犬|拉布拉多)"
)


def _kin_named(found: RuleMatch) -> Statement | None:
    name, who = found["name"], found["who"]
    return None if _NO_NAME.match(name) or re.search("我|你|他|她", name) else LIFE.of(f"用户的{who}叫{name}。")


def _kin_is(found: RuleMatch) -> Statement | None:
    what = PARTICLES.sub("", found["what"])
    if (
        not what
        or len(what) > 30
        or re.search("[你我他她]|这|那|医院|一起|楼|隔壁", what)
        or (found["what"].startswith("住") and not place_in(what[2:]))
    ):
        return None
    if "过敏" in what and NO_ALLERGEN.search(what):
        return None
    return LIFE.of(f"用户的{found['who']}{what}。")


PERSON_RULES: RuleTable = compile_rules(
    (
        rf"(?:我|本人)(?:的)?(?:名字|全名|真名|姓名|本名|中文名|大名)(?:就)?(?:是|叫(?:做|作)?|：|:) ?"
        rf"(?P<name>{_A_NAME}|[{HAN}]{{2,4}})$",
        _named,
    ),
    (rf"(?:我|本人|我就)(?:名)?叫(?:做|作)? ?(?P<name>{_A_NAME})$", _named),
    (
        rf"(?:你|您|大家|朋友们?|同事们?)?(?:可以|都|就|一般|平时|习惯){{0,2}}(?:请)?(?:叫|称呼)我"
        rf"(?:为)? ?(?P<name>{_A_NAME}|[{HAN}]{{2,3}}?)(?:就行|就好|就可以|即可|吧|就成|就是|好了)+了?$",
        _named,
    ),
    (rf"(?:请)?(?:叫|称呼)我 ?(?P<name>{_A_NAME})$", _named),
    (rf"我姓(?P<what>[{_NAMES}])(?:$|[，,])", template_rule(NAME, "用户姓{what}。")),
    (
        rf"(?:我和.{{1,5}}?|我跟.{{1,5}}?|我|我们|我家){TIME_ADVERBS}(?:住在|定居在|定居于|常住|居住在|居住于"
        rf"|生活在|安家在|家住|家在|住) ?(?P<place>[{HAN}A-Za-z·\d ]{{2,20}})$",
        _lives,
    ),
    (
        rf"(?:我|我们|我家|我们家){TIME_ADVERBS}(?:搬到|搬去|搬来|搬家到|搬回|移居|移民到)了? ?"
        rf"(?P<place>[{HAN}A-Za-z· ]{{2,16}})$",
        _lives,
    ),
    (rf"(?:我|本人){TIME_ADVERBS}来自 ?(?P<place>[{HAN}A-Za-z· ]{{2,14}})$", _from),
    (rf"我(?:的)?老家(?:是|在) ?(?P<place>[{HAN}A-Za-z· ]{{2,14}}?)(?:的)?$", _from),
    (rf"我是(?:土生土长的|地道的|地地道道的)?(?P<place>(?:{_REGIONS})[{HAN}]{{0,4}}?)人$", _from),
    (
        r"我(?:是|目前|现在|一直|还是|还){0,2}(?P<what>单身|已婚|未婚|离异|左撇子|丁克|独生子|独生女"
        r"|独生子女|穆斯林|佛教徒|基督徒|色盲|色弱|聋人|盲人)(?:状态|的)?$",
        template_rule(LIFE, "用户是{what}。"),
    ),
    (
        rf"我(?:的|家的?|家里的?|们家的?)?(?P<who>(?:{_KIN}|{_PET}))(?:的)?(?:名字|小名|大名)?(?:叫"
        rf"(?:做)?|名叫|名字是) ?(?P<name>[{HAN}]{{2,5}}|[A-Z][\w ]{{1,20}})$",
        _kin_named,
    ),
    (
        rf"我(?:的|家的?)?(?P<who>(?:{_KIN}))(?P<what>(?:住在|在)[{HAN}A-Za-z]{{2,12}}?(?:工作|上班"
        rf"|当[{HAN}]{{2,6}}|读书|上学|上大学|留学)|(?:现在|目前)?住在[{HAN}A-Za-z]{{2,12}}"
        rf"|对[{HAN}、和]{{1,12}}?(?:严重)?过敏|是(?:一名|一位|一个|个|名)?[{HAN}]{{0,8}}(?:{TRADES})"
        rf"|今年[{HAN}\d]{{1,4}}岁|(?:刚满|马上)?[{HAN}\d]{{1,3}}岁|患有[{HAN}]{{2,10}}|有(?:{ILLNESS})"
        rf"|吃素|不吃[{HAN}]{{1,6}}|怀孕)(?:了)?$",
        _kin_is,
    ),
    (
        rf"(?:我|我们|我家|我家里){TIME_ADVERBS}(?:有|养了|养着|养|领养了)(?P<what>{COUNT}(?:个|只|条|匹|对|位"
        rf"|头)(?:[{HAN}\d]{{0,6}}?)(?:{_KIN}|{_PET}|孩子|儿女|双胞胎女儿|双胞胎儿子|小孩|娃|鱼|鸟|兄弟"
        rf"|姐妹|兄弟姐妹)(?:和{COUNT}(?:个|只|条)(?:{_KIN}|{_PET}))?(?:，?"
        rf"(?:名)?叫[{HAN}A-Za-z和]{{2,10}})?)(?:了)?$",
        template_rule(LIFE, "用户有{what}。"),
    ),
    (
        r"(?:我|本人)(?:今年|刚满|已经|马上就?)?(?P<what>\d{1,3}|[一二三四五六七八九十]{1,3})(?:周)?岁"
        r"(?:了)?$",
        template_rule(LIFE, "用户{what}岁。"),
    ),
    (
        r"我(?:的)?(?P<k>生日|邮箱|电话|手机号|血型|身高|体重|星座|母语|国籍|家乡|籍贯|鞋码|英文名"
        r"|昵称|外号|小名|网名|车牌号|时区|结婚纪念日|微信号|QQ号|学号|工号)(?:就)?(?:是|为|：|:)"
        r"(?P<what>.{1,30})$",
        template_rule(LIFE, "用户的{k}是{what}。", 30),
    ),
    (r"我(?:身高|个子)(?P<what>.{2,10}(?:cm|厘米|米.{0,2}))$", template_rule(LIFE, "用户身高{what}。")),
    (
        r"我(?:出生于|生于|出生在|是(?=.{2,10}(?:年|月|日)出生))(?P<what>.{2,16}?)(?:出生)?(?:的)?$",
        template_rule(LIFE, "用户出生于{what}。"),
    ),
    (
        r"我(?:还|也|能|只)?会(?:说|讲)(?P<what>[^，,]{2,20}(?:语|文|话)[^，,]{0,8})$",
        template_rule(LIFE, "用户会说{what}。"),
    ),
    (r"我(?P<what>(?:开|骑)(?:的是)?(?:一辆|辆).{2,14})$", template_rule(LIFE, "用户{what}。")),
)


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
    return LIFE.of(f"用户在{place}{PARTICLES.sub('', found['how'])}。")


WORK_RULES: RuleTable = compile_rules(
    (
        rf"(?:我|本人){TIME_ADVERBS}是(?P<one>(?:一|个|名|位|一个|一名|一位|两个孩子的)?)"
        rf"(?P<before>[{HAN}A-Za-z\d/ ]{{0,12}}?)(?P<trade>{TRADES})$",
        _is_a,
    ),
    (
        rf"(?:我|本人){TIME_ADVERBS}在(?P<place>[{HAN}A-Za-z\d·&. ]{{1,24}}?)(?P<how>(?:工作|上班|任职|就职|实习"
        rf"|办公|教书|读书|上学|念书|读研|读博|读大[一二三四]|上大学|留学|教(?:数学|语文|英语|物理|化学"
        rf"|历史|音乐|美术)|(?:当|做|担任|任|读|学|念)[{HAN}A-Za-z]{{2,12}}))(?:了|的"
        rf"|[{HAN}]{{0,3}}年了?)?$",
        _works,
    ),
    (
        r"我(?:的)?(?P<k>职业|工作|本职工作|专业|主业)是(?:做)? ?(?P<what>.{2,24})$",
        template_rule(LIFE, "用户的{k}是{what}。", 24),
    ),
    (r"(?:我|我目前|我现在|我一直)从事(?P<what>.{2,20})$", template_rule(LIFE, "用户从事{what}。", 20)),
    (
        r"(?:我|我们|我自己|我和.{1,6})(?:自己)?(?:经营|开)(?:了|着)?(?P<what>一?(?:家|间"
        r"|个)[^，,]{0,20}(?:店|馆|公司|厂|工作室|诊所|农场|餐厅|超市|民宿|咖啡馆|书店|面馆|酒吧"
        r"|事务所|学校|厅|铺|坊|屋|房))$",
        template_rule(LIFE, "用户经营{what}。"),
    ),
    (
        r"我(?:已经|去年|今年|刚|早就)?(?P<what>退休|失业|离婚|结婚|怀孕|订婚)(?:\d+年"
        r"|[一二三四五六七八九十两]+(?:年|个月|周))?了$",
        template_rule(LIFE, "用户已{what}。"),
    ),
)


def _allergic(found: RuleMatch) -> Statement | None:
    what = found["what"].strip()
    if NO_ALLERGEN.search(what) or len(what) > 24 or not what:
        return None
    return HEALTH.of(f"用户对{what}{found['how'] or ''}过敏。")


def _has_allergy(found: RuleMatch) -> Statement | None:
    what = found["what"]
    if NO_ALLERGEN.search(what) or re.search("[不没是又会容易皮肤一]|严重|容易|最近|有点|今天|开始|吃", what):
        return None
    return HEALTH.of(f"用户对{what}过敏。")


def _abstains(found: RuleMatch) -> Statement | None:
    what = trim_clause(found["what"], 14)
    if not what or re.search(
        ("今天|今晚|现在|早饭|午饭|晚饭|早餐|午餐|晚餐|夜宵$|亏|惊|这套|下|饱|完|醋|苦|太多|多$|一套|到|得|动|起|饭"),
        found["what"],
    ):
        return None
    return HEALTH.of(f"用户{found['verb']}{what}。")


HEALTH_RULES: RuleTable = compile_rules(
    (
        r"我(?:从小|一直|真的|也|是|天生|确实|其实){0,2}对(?P<what>[^，,]{1,24}?)(?:都|也|是|有)?"
        r"(?P<how>严重|重度|轻度|轻微)?(?:地)?过敏(?:的)?$",
        _allergic,
    ),
    (rf"我(?:不|并不|没有)对(?P<what>[{HAN}]{{1,12}})过敏$", template_rule(HEALTH, "用户对{what}不过敏。")),
    (rf"我对(?P<what>[{HAN}]{{1,12}})(?:并)?不过敏$", template_rule(HEALTH, "用户对{what}不过敏。")),
    (rf"我(?:有)?(?P<what>[{HAN}]{{2,5}})过敏(?:症)?$", _has_allergy),
    (
        rf"我(?:从小|一直|去年|今年|前年|也|被|最近){{0,2}}(?:患有|患了|得了|有|被诊断出|查出|确诊了?"
        rf"|是|被确诊为?)(?:严重的|轻度的?|重度的?|中度的?|慢性|先天性)?(?P<what>(?:{ILLNESS}))(?:患者"
        rf"|病人)?(?:的)?$",
        template_rule(HEALTH, "用户有{what}。"),
    ),
    (r"我(?P<what>乳糖不耐受?|麸质不耐受?)$", template_rule(HEALTH, "用户{what}。")),
    (
        r"我(?:一直|现在|长期|已经|是|也|是个|是一个|是一名|从小|们家){0,2}(?P<what>吃素|吃全素"
        r"|纯素食?者|素食主义者|素食者|严格素食者|蛋奶素)(?:的|很多年|多年"
        r"|[一二三四五六七八九十\d]+年)?了?$",
        lambda found: HEALTH.of(f"用户{'' if found['what'].startswith('吃') else '是'}{found['what']}。"),
    ),
    (
        r"我(?:从来|从|一直|也|平时|一般|完全|是|基本|绝对|真的){0,2}(?P<verb>不吃|不喝|不能吃|不能喝"
        r"|吃不了|喝不了|不碰|从不吃|从不喝)(?P<what>.{1,14})$",
        _abstains,
    ),
)
