"""A config as it is in effect: every key with its value, and where the value came from."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic.json_schema import JsonSchemaValue

from shunter.config.keys import DEFAULT, Path, path_text, value_at
from shunter.config.loading import LoadedConfig
from shunter.config.model import Config

_MISSING = object()


@dataclass(frozen=True)
class Setting:
    """One key: `text` is its value as --set takes it."""

    key: str
    value: object
    origin: str

    @property
    def text(self) -> str:
        """The value in the notation of TOML."""
        return json.dumps(self.value, ensure_ascii=False)


def effective(loaded: LoadedConfig) -> dict[str, object]:
    """Return the whole config with all defaults, as tables, lists and values."""
    document = loaded.config.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["policy"]["params"] = {
        name: params.model_dump(mode="json", by_alias=True)
        for name, params in loaded.params.items()
    }
    return document


def settings(loaded: LoadedConfig) -> list[Setting]:
    """Return every key of a config that has a value, in the order of the model."""
    return [
        Setting(path_text(path), value, _origin(loaded, path))
        for path, value in _leaves(effective(loaded), ())
    ]


def json_schema() -> JsonSchemaValue:
    """Return the JSON schema of config files, for editors."""
    schema = Config.model_json_schema(by_alias=True)
    _write_durations(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _origin(loaded: LoadedConfig, path: Path) -> str:
    if value_at(loaded.layers.tree, path, _MISSING) is _MISSING:
        return DEFAULT
    return loaded.layers.origins.of(path)


def _leaves(value: object, path: Path) -> Iterator[tuple[Path, object]]:
    """Yield the values of tables, and of lists of tables; other lists are values."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for place, inner in enumerate(value):
            yield from _leaves(inner, (*path, place))
    else:
        yield path, value


def _write_durations(schema: object) -> None:
    """Write the defaults of durations as people do; the model holds microseconds."""
    from shunter.policies.params import duration_text

    if isinstance(schema, list):
        for item in schema:
            _write_durations(item)
    if not isinstance(schema, dict):
        return
    kinds = [schema, *schema.get("anyOf", [])] if isinstance(schema.get("anyOf", []), list) else []
    is_duration = any(str(kind.get("title", "")).startswith("duration") for kind in kinds)
    if is_duration and isinstance(schema.get("default"), int):
        schema["default"] = duration_text(schema["default"])
    for item in schema.values():
        _write_durations(item)
