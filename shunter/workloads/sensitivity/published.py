"""What the public Synergy simulator publishes of its models, as it comes with the package.

`data/synergy.json` says what is in it. The table of sensitivity is read from it, and whoever counts
iterations as that simulator does reads what one takes.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

PUBLISHED = Path(__file__).parent / "data" / "synergy.json"


@cache
def published_models() -> dict[str, Any]:
    """Return the published models by name, as the file has them; nobody changes them."""
    models: dict[str, Any] = json.loads(PUBLISHED.read_text(encoding="utf-8"))["models"]
    return models
