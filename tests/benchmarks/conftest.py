"""The benchmarks are scripts: they import their neighbours by name."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
