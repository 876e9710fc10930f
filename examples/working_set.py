"""A working set of four files with a budget of 28 000 tokens, added to a chat.

`python examples/working_set.py` prints the boot header, how much of each file was sent, and the report.
"""

import tempfile
from pathlib import Path

import yaml
from openai import OpenAI

import ctxwrap
from ctxwrap.testing.practice import Provider

MANIFEST = """\
protocol: CONTEXT-ASSEMBLY/0.1
budget:
  max_tokens: 28000
  reserved_for_response: 4000
files:
  - {path: constitution.md, priority: 1.0, role: system, truncate_strategy: never}
  - {path: current_task.md, priority: 0.95, role: developer, truncate_strategy: end}
  - {path: src/bread.py, priority: 0.8, role: context, truncate_strategy: middle, max_lines: 500}
  - {path: oven.log, priority: 0.3, role: context, truncate_strategy: start}
"""
FILES = {
    "constitution.md": "Be kind, and say when you do not know.\n",
    "current_task.md": "Help Ada to bake rye bread.\n",
    "src/bread.py": "def bake(flour: str) -> str:\n    return f'{flour} bread'\n",
    "oven.log": "".join(f"{minute:05} the oven has {20 + minute % 200} degrees\n" for minute in range(3000)),
}

root = Path(tempfile.mkdtemp(prefix="ctxwrap-")) / "bakery"
for name, text in {**FILES, "working-set.yml": MANIFEST}.items():
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)

QUESTION = {"model": "gpt-4o", "messages": [{"role": "user", "content": "My name is Ada."}]}

with Provider() as provider:
    client = OpenAI(api_key="practice", base_url=provider.openai_url)
    client = ctxwrap.wrap(client, session="ada", store="memory:", working_set=str(root / "working-set.yml"))
    view = ctxwrap.preview(client, **QUESTION)
    reply = client.chat.completions.create(**QUESTION)

print(reply.choices[0].message.content)
print(f"\n--- boot header\n{view.boot_header}")
print("--- pack")
for item in view.items:
    print(f"{'sent' if item.included else 'left out':8} {item.tokens:6} {item.kind:12} {item.source:16} {item.reason}")
turn = ctxwrap.turn_of(reply)
assert turn is not None
print("\n--- report")
print(yaml.safe_dump({"assembly_report": turn.report.assembly}, sort_keys=False))
