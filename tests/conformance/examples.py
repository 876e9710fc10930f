"""Examples of the Context Assembly Protocol, word for word."""

MANIFEST = """\
# working-set.yml
protocol: CONTEXT-ASSEMBLY/0.1
budget:
  max_tokens: 28000
  reserved_for_response: 4000
  effective: 24000

files:
  - path: ".agent/constitution.md"
    priority: 1.0          # Highest (always included)
    role: "system"
    truncate_strategy: "never"
    
  - path: "current_task.md"
    priority: 0.95
    role: "developer"
    truncate_strategy: "end"
    
  - path: "src/main.ts"
    priority: 0.8
    role: "context"
    truncate_strategy: "middle"
    max_lines: 500
    
  - path: "tool/terminal/log-latest.txt"
    priority: 0.3
    role: "context"
    truncate_strategy: "start"  # Keep recent

metadata:
  last_updated: "2025-12-30T12:30:00Z"
  assembled_by: "model"
"""  # noqa: W293  # as the document has it
MANIFEST_AS_PRINTED = MANIFEST.replace('assembled_by: "model"', 'assembled_by: "model" | "orchestrator" | "user"')
ACTIONS = """\
# Add file to working set
action: add_to_working_set
path: "newly_discovered.md"
priority: 0.7
why: "Found relevant documentation"

# Remove file from working set
action: remove_from_working_set
path: "no_longer_needed.md"
why: "Task complete, don't need this"

# Adjust priority
action: adjust_priority
path: "important_file.md"
priority: 0.9
why: "This is more relevant than initially thought"
"""
