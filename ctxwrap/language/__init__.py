"""Rules about natural language that need no model.

Text enters; terms (`words`), dates (`dates`), statements of a user about themselves (`statements`) and the attribute
that a memory item sets (`slots`) leave. The grammar rules are in `english` and `chinese`, the word lists in
`vocabulary` (all languages) and `lexicon` (facts about persons). Begin with `statements.statements_in`, then
`english/clauses.py`.
"""
