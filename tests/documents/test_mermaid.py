"""How many nodes the diagrams of a document have."""

import pytest

from ctxwrap.documents.sections import node_counts

CHAIN = " --> ".join(f"n{number}" for number in range(11))


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("graph TD; a-->b", 2),
        ("graph TD; a-->b; b-->a;", 2),
        (f"flowchart LR\n  {CHAIN}", 11),
        ("flowchart TD\n  A[Start here] -->|yes| B{Is it?}\n  B -- no --> C((End))\n  A & C ==> D", 4),
        ("flowchart TD\n  %% comment\n  subgraph one\n  A --> B\n  end\n  style A fill:#f9\n  lone([Alone])", 3),
        ('graph LR\n  a["x --> y --> z"] -.-> b', 2),
        (
            "flowchart TD\n  NewMsg[New user or agent message] --> Store?{Store this?}\n  Store? -- No --> Continue\n"
            "  Store? -- Yes --> Summ[Generate summary]\n"
            "  Summ --> Add[add_entry(raw_entry, summary)] --> Continue[Continue conversation]",
            5,
        ),
        ("sequenceDiagram\n  participant A\n  A->>B: Hello - there\n  B-->>A: Hi\n  Note over A: text", 2),
        ("stateDiagram-v2\n  [*] --> Still\n  Still --> Moving : go\n  Moving --> [*]", 2),
        ("classDiagram\n  Animal <|-- Duck\n  class Fish", 3),
        ("erDiagram\n  CUSTOMER ||--o{ ORDER : places", 2),
        ("mindmap\n  root\n    one\n    two", 3),
        ('pie title Pets\n  "Dogs" : 386', 0),
        ("", 0),
    ],
)
def test_nodes_are_counted_once(code: str, count: int) -> None:
    assert node_counts(f"# Diagram\n```mermaid\n{code}\n```\nText --> more.") == [count]


def test_only_mermaid_diagrams_are_counted() -> None:
    assert node_counts("```mermaid\ngraph TD\na-->b\n```\n\n~~~mermaid\ngraph TD\na-->b-->c\n~~~") == [2, 3]
    assert node_counts(f"```\n{CHAIN}\n```\n{CHAIN}") == []
    assert node_counts(f"```mermaid\ngraph TD\n{CHAIN}") == [11], "one that nobody closed is drawn, too"
