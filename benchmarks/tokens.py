"""Speed of token counting, and error of the estimates.

    python benchmarks/tokens.py [--megabytes 1] [--only time|error]

time: megabytes per second of CPU time for the exact encodings, for an estimate based on one of them and for an estimate
from characters alone, each with its ratio to the exact one. `again` counts an equal text a second time. A hostile run
has no spaces; its last column is the time for eight times the length divided by the time for the length (8 is linear).

error: estimated tokens divided by exact ones, for texts that the estimates were not fitted to. `characters`
works without tiktoken; `bytes/4` is for comparison. There is no exact tokenizer for `claude` and others; the last table
uses the tokenizer of Claude 2 that litellm ships, if the package `tokenizers` is installed.
"""

import argparse
import random
from collections.abc import Callable
from time import process_time

from ctxwrap.tokens import counter_for
from ctxwrap.tokens.counting import by_characters
from ctxwrap.tokens.models import litellm_directory

HELD_OUT = {
    "english": "Before the bridge was built, people rowed across the river, and whoever came late had to shout until "
    "somebody on the other bank woke up. My grandmother kept a whistle for it. She claims it still works.",
    "german": "Bevor die Brücke gebaut wurde, ruderte man über den Fluss, "
    "und wer zu spät kam, musste rufen, bis am anderen "
    "Ufer jemand aufwachte. Meine Großmutter hatte dafür eine Trillerpfeife.",
    "spanish": "Antes de que se construyera el puente, la gente cruzaba "
    "el río en barca, y quien llegaba tarde tenía que "
    "gritar hasta que alguien despertara en la otra orilla.",
    "turkish": "Köprü yapılmadan önce insanlar nehri kayıkla geçerdi ve geç kalanlar karşı kıyıda biri uyanana kadar "
    "bağırmak zorundaydı.",
    "russian": "Пока не построили мост, люди переправлялись через реку "
    "на лодках, и опоздавшим приходилось кричать, пока "
    "кто-нибудь на другом берегу не проснётся.",
    "greek": "Πριν χτιστεί η γέφυρα, οι άνθρωποι περνούσαν το ποτάμι με βάρκες, και όποιος αργούσε έπρεπε να φωνάζει.",
    "hebrew": "לפני שנבנה הגשר חצו אנשים את הנהר בסירות, ומי שאיחר היה צריך לצעוק עד שמישהו בגדה השנייה התעורר.",
    "arabic": "قبل بناء الجسر كان الناس يعبرون النهر بالقوارب، ومن يتأخر "
    "كان عليه أن ينادي حتى يستيقظ أحد على الضفة الأخرى.",
    "hindi": "पुल बनने से पहले लोग नाव से नदी पार करते थे, और जो देर से आता था उसे तब तक पुकारना पड़ता था जब तक कोई जाग न जाए।",
    "thai": "ก่อนที่จะสร้างสะพาน ผู้คนพายเรือข้ามแม่น้ำ และใครที่มาสายต้องตะโกนจนกว่าจะมีคนตื่น",
    "chinese": "桥修好以前，人们划船过河，来晚的人只好大声喊，直到对岸"
    "有人醒来。我的祖母为此准备了一个哨子，她说现在还能吹响。",
    "japanese": "橋ができる前は、人々は舟で川を渡っていて、遅れて来た人"
    "は向こう岸の誰かが起きるまで叫ばなければならなかった。",
    "korean": "다리가 놓이기 전에는 사람들이 배로 강을 건넜고, 늦게 온 "
    "사람은 건너편에서 누군가 깰 때까지 소리를 질러야 했다.",
    "rust": "impl<T: Ord> Heap<T> {\n    pub fn push(&mut self, item: T) {\n        self.items.push(item);\n        "
    "let mut at = self.items.len() - 1;\n        while at > 0 && "
    "self.items[at] > self.items[(at - 1) / 2] {\n            "
    "self.items.swap(at, (at - 1) / 2);\n            at = (at - 1) / 2;\n        }\n    }\n}\n",
    "json": '{"users":[{"id":7,"email":"ada@example.org","roles":["admin","ops"],"last_login":"2031-05-09T08:15:00Z"},'
    '{"id":8,"email":"bo@example.org","roles":[],"last_login":null}],"next":"/users?page=2","total":118}',
    "numbers": "id;x;y;z\n1;0.4471;-3.1180;12.0052\n2;0.5023;-2.9911;12.1047\n3;0.5530;-2.8742;12.2209\n",
    "hex": "c4ca4238a0b923820dcc509a6f75849bc81e728d9d4c2f636f067f89cc14862ceccbc87e4b5ce2fe28308fd9f2a7baf3",
    "emoji": "Off to the lake 🏊‍♀️🌞 bring snacks 🍉🥪 and the dog 🐕!! see u at 9 ⏰💙",
}
MODELS = ("gpt-4", "gpt-4o")
OTHERS = ("claude-sonnet-4-5", "claude-opus-4-7", "gemini-2.5-pro", "llama-3.1-8b", "mistral-7b", "qwen3-32b")
RUNS = {"a": "a", "space": " ", "line": "\n", "dash": "-", "han": "漢", "mixed": "aB1+"}


def text_of(size: int) -> str:
    """`size` bytes of all texts, mixed, without repeated parts."""
    draw, parts, length = random.Random(5), list[str](), 0
    while length < size:
        parts.append(f"{draw.random()} {draw.choice(list(HELD_OUT.values()))}")
        length += len(parts[-1].encode()) + 1
    return "\n".join(parts)


def seconds(run: Callable[[], object]) -> float:
    """The shortest CPU time of three runs."""
    times = []
    for _ in range(3):
        started = process_time()
        run()
        times.append(process_time() - started)
    return min(times)


def show_time(megabytes: float) -> None:
    text = text_of(int(megabytes * 1_000_000))
    size = len(text.encode()) / 1_000_000
    exact = counter_for("gpt-4o")
    ways: dict[str, Callable[[], object]] = {
        "o200k_base, exact": lambda: exact._counting(text),
        "cl100k_base, exact": lambda: counter_for("gpt-4")._counting(text),
        "estimate through cl100k_base": lambda: counter_for("claude-sonnet-4-5")._counting(text),
        "estimate, characters only": lambda: by_characters(text),
        "bytes/4": lambda: len(text.encode()) // 4,
        "again": lambda: exact.count("".join((text[:5], text[5:]))),
    }
    exact.count(text)
    spent_on = {name: seconds(way) for name, way in ways.items()}
    print(f"| counting {size:.1f} MB | MB/s | ratio |\n| --- | --- | --- |")
    for name, spent in spent_on.items():
        print(f"| {name} | {size / spent:.1f} | {spent_on['o200k_base, exact'] / spent:.2f} |")
    messages = [HELD_OUT[name] + str(number) for number, name in enumerate(HELD_OUT)] * 50
    spent = seconds(lambda: [exact.count(message) for message in messages])
    print(f"| again, messages of 150 characters | {sum(map(len, messages)) / spent / 1e6:.1f} | - |")
    show_runs()


def show_runs() -> None:
    count = counter_for("gpt-4o")._counting
    print("\n| hostile run | MB/s at 125 kB | MB/s at 1 MB | time for 8 times the length |\n| --- | --- | --- | --- |")
    for name, unit in RUNS.items():
        short, long = unit * (125_000 // len(unit.encode())), unit * (1_000_000 // len(unit.encode()))
        times = [seconds(lambda text=text: count(text)) for text in (short, long)]  # type: ignore[misc]
        print(f"| {name} | {0.125 / times[0]:.1f} | {1 / times[1]:.1f} | {times[1] / times[0]:.1f} |")


def show_error() -> None:
    print(
        "\n| text | characters, cl100k_base | characters, o200k_base | bytes/4, o200k_base |\n| --- | --- | --- | --- |"
    )
    for name, text in HELD_OUT.items():
        old, new = (counter_for(model) for model in MODELS)
        ratios = by_characters(text, old.name) / old.count(text), by_characters(text, new.name) / new.count(text)
        print(f"| {name} | {ratios[0]:.2f} | {ratios[1]:.2f} | {len(text.encode()) / 4 / new.count(text):.2f} |")
    print(f"\n| by o200k_base | {' | '.join(OTHERS)} |\n| --- |{' --- |' * len(OTHERS)}")
    for name, text in HELD_OUT.items():
        counts = [counter_for(model).count(text) / counter_for("gpt-4o").count(text) for model in OTHERS]
        print(f"| {name} | {' | '.join(f'{ratio:.2f}' for ratio in counts)} |")
    show_claude_2()


def show_claude_2() -> None:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return
    directory = litellm_directory()
    if directory is None:
        return
    tokenizer = Tokenizer.from_file(str(directory / "litellm_core_utils" / "tokenizers" / "anthropic_tokenizer.json"))
    counter = counter_for("claude-2")
    print("\n| text | estimate / Claude 2 tokenizer | with the margin |\n| --- | --- | --- |")
    for name, text in HELD_OUT.items():
        own, tokens = len(tokenizer.encode(text).ids), counter.count(text)
        print(f"| {name} | {tokens / own:.2f} | {counter.at_most(tokens) / own:.2f} |")


def main() -> None:
    options = argparse.ArgumentParser(description="Speed of token counting, and error of the estimates.")
    options.add_argument("--megabytes", type=float, default=1)
    options.add_argument("--only", choices=("time", "error"))
    given = options.parse_args()
    if given.only != "error":
        show_time(given.megabytes)
    if given.only != "time":
        show_error()


if __name__ == "__main__":
    main()
