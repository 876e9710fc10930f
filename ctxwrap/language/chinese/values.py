"""Shared by the Chinese rules: value clean-up, rule templates and word lists."""

from ctxwrap.language.patterns import lazy_pattern
from ctxwrap.language.rules import RuleAction, RuleMatch, Statement, StatementCategory

_MINE = lazy_pattern("我自己|我们|我")


def third_person(text: str) -> str:
    """Replace the speaker by the user, and the addressee by the assistant."""
    text = _MINE.sub(lambda found: {"我自己": "用户自己", "我们": "用户一方", "我": "用户"}[found[0]], text)
    return text.replace("您", "助手").replace("你们", "助手").replace("你", "助手")


PARTICLES = lazy_pattern("(?:了|的|呢|哦|啊|吧|呀|哈|啦|而已|哟|，|。|！|\\s)+$")

_VAGUE = lazy_pattern(
    "(?:你|您|他|她|它|这|那|此|上面|刚才|第[一二三四\\d]|前者|后者|自己$|一下|死|上了|过|的|得"
    "|着|不得|不|听你|跟你|和你|看你|有人|人|别人|大家|所有|一切|任何|全部|哪|某)"
)

HAN = "\u4e00-\u9fff"


def trim_clause(text: str, max_length: int = 60) -> str:
    value = PARTICLES.sub("", text.strip())
    return value if 0 < len(value) <= max_length and not _VAGUE.match(value) else ""


def template_rule(category: StatementCategory, template: str, max_length: int = 40) -> RuleAction:
    """Return an action that fills the template with the value; it produces nothing for a vague value."""

    def action(found: RuleMatch) -> Statement | None:
        values = found.groupdict()
        values["what"] = third_person(trim_clause(found["what"], max_length))
        return category.of(template.format(**values)) if values["what"] else None

    return action


TRADES = (
    "老师|教师|医生|护士|程序员|工程师|设计师|律师|会计|司机|厨师|记者|编辑|作家|画家|演员|歌手"
    "|导演|摄影师|翻译|教授|研究员|科学家|警察|军人|消防员|学生|大学生|研究生|博士生|硕士生"
    "|高中生|初中生|博士|老板|经理|产品经理|项目经理|主管|总监|创始人"
    "|销售|客服|公务员|银行职员|职员|分析师|数据分析师|架构师|架构|架构员|开发者|开发|顾问|建筑师"
    "|药剂师|牙医|兽医|心理咨询师|咨询师|理发师|美容师|快递员|外卖员|农民|工人|电工|木工|技工"
    "|飞行员|空姐|空乘|导游|健身教练|教练|舞者|音乐人|音乐家|钢琴老师|自由职业者|自由撰稿人"
    "|全职妈妈|全职爸爸|家庭主妇|退休教师|退休工人|店主|店长|保险经纪|经纪人|主播|博主|插画师"
    "|运营|策划|文员|秘书|前台|出纳|审计师|裁缝|园丁|保安|保姆|月嫂|社工|图书管理员|物理学家"
    "|数学家|化学家|生物学家|历史学家|实习生|测试员|测试|运维|单亲妈妈|单亲爸爸|法官|检察官"
    "|麻醉师|营养师|化妆师|烘焙师|咖啡师|调酒师|船员|海员|护工|机长|策展人|制片人|公证员|质检员"
    "|仓管|采购"
)

NO_ALLERGEN = lazy_pattern(
    "周一|星期一|开会|上班|工作|早起|他|她|你|我|数学|这种|那种|学习|加班|婚姻|愚蠢|运动|人$|它"
    "|这|会议|代码|麻烦|考试|一切"
)

ILLNESS = (
    "糖尿病|[12一二]型糖尿病|高血压|低血压|哮喘|心脏病|抑郁症|焦虑症|鼻炎|过敏性鼻炎|胃病|胃炎"
    "|痛风|甲亢|甲减|癫痫|偏头痛|湿疹|乳糖不耐受?|乳糖不耐症|关节炎|类风湿|贫血|腰椎间盘突出"
    "|颈椎病|脂肪肝|乙肝|肾结石|失眠症|多动症|自闭症|阅读障碍|色盲|色弱|白癜风|银屑病|强迫症|双相"
    "(?:情感障碍)?|帕金森|红斑狼疮|胃食管反流|荨麻疹|蚕豆病|高血脂|高尿酸|青光眼|近视|耳鸣"
    "|麸质不耐受?"
)

COUNT = "[一二两三四五六七八九十几\\d]+"

TIME_ADVERBS = (
    "(?:现在|目前|一直|就|是|也|还|都|已经|如今|最近|刚|刚刚|上个月|上周|去年|今年|前年|和(?:家人"
    "|老婆|老公|父母|女朋友|男朋友|妻子|丈夫)一起|跟(?:家人|老婆|老公|父母)一起|一家|全家|一家人"
    "|平时|长期|常年|一个人|独自|家){0,3}"
)
