"""Tables of factors: the built-in one, one on top of it, and what is refused and where."""

import pytest

from shunter.core.speeds import MemoryCycle
from shunter.errors import ConfigError
from shunter.events import GpuType, Level
from shunter.workloads import BUILTIN_FACTORS, FactorFile, load_factors

GOOD = """
[gpus.p100]
memory_mb = 16_000
[models.vgg]
also = ["VGG-16"]
shapes = { 2x2 = 0.5 }
pairs = { lm = [0.8, 0.7], vgg = [0.5, 0.5] }
[models.lm]
source = "ours"
levels = { socket = 0.9, server = 0.8 }
beside = { switch = 0.81 }
"""


def read(text: str) -> FactorFile:
    return load_factors("factors.toml", lambda _: text)


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return str(caught.value)


def test_table_of_the_package_says_what_was_published() -> None:
    """The figures of the SOSP-SRC text, as `locality` of 4 GPUs over 1, 2 and 4 servers."""
    file = load_factors(BUILTIN_FACTORS, lambda _: "")
    models = file.table.models
    assert [models["resnet50"].spread(4, servers) for servers in (1, 2, 4)] == [1.0, 0.72, 0.41]
    assert models["inception3"].spread(4, 2) == 1.0
    assert models["alexnet"].in_server[Level.server] == 0.73
    assert models["resnet152"].in_server[Level.server] == 0.89
    assert models["rnn"].neighbourhood[Level.switch] == 0.88
    assert models["lm"].neighbourhood[Level.switch] == 0.81
    assert all(file.sources[model] for model in models)


def test_pair_is_known_by_both_and_by_all_their_names() -> None:
    models = read(GOOD).table.models
    assert models["vgg"].pairs == {"lm": 0.8, "vgg": 0.5, "VGG-16": 0.5}
    assert models["VGG-16"] == models["vgg"]
    assert models["lm"].pairs == {"vgg": 0.7, "VGG-16": 0.7}


def test_file_on_top_of_the_built_in_table_changes_only_its_own_models() -> None:
    file = read('extends = "builtin:published"\n[models.resnet50]\nshapes = { 2x2 = 0.9 }\n')
    below = load_factors(BUILTIN_FACTORS, lambda _: "")
    assert file.table.models["resnet50"].spread(4, 2) == 0.9
    assert file.table.models["alexnet"] == below.table.models["alexnet"]
    assert file.sources["resnet50"] == "factors.toml"
    assert file.digest != read("[models.resnet50]\nshapes = { 2x2 = 0.9 }\n").digest


def test_memory_cycle_is_read() -> None:
    text = "[models.a]\nmemory_cycle = { least_mb = 1, most_mb = 77, batch_s = 0.25 }"
    assert read(text).table.models["a"].memory_cycle == MemoryCycle(1, 77, 250_000)


def test_memory_of_gpus_is_read() -> None:
    assert read(GOOD).table.gpu_memory_mb == {GpuType("p100"): 16_000}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[models.a", "not valid TOML"),
        ("", "required field `models`"),
        ("[models]", "models: expected at least one"),
        ("[models.a]\nlevel = {}", "unknown field `level`"),
        ('[models.a]\nlevels = { socket = "fast" }', "Expected `float`, got `str`"),
        ("[models.a]\nlevels = { sockets = 1 }", "Invalid enum value 'sockets'"),
        ("[models.a]\nlevels = { socket = 0 }", "models.a.levels.socket: expected a part"),
        ("[models.a]\nlevels = { socket = nan }", "models.a.levels.socket: expected a part"),
        ("[models.a]\nlevels = { socket = 0.8, server = 0.9 }", "levels.server: 0.9 is faster"),
        ("[models.a]\nshapes = { 2x2 = 1.2 }", "shapes.2x2: expected a part"),
        ("[models.a]\nshapes = { 1x4 = 1 }", "shapes.1x4: expected servers x GPUs"),
        ("[models.a]\nshapes = { two = 1 }", "shapes.two: expected servers x GPUs"),
        ("[models.a]\nbeside = { rack = 0.9 }", "beside.rack: expected switch, socket, server"),
        ("[models.a]\npairs = { a = [1.5, 1.5] }", "pairs.a: expected parts of the speed alone"),
        ("[models.a]\npairs = { a = [0.5, 0.6] }", "the same part twice"),
        ("[models.a]\npairs = { b = [0.5, 0.6] }", "there is no model 'b'"),
        (
            "[models.a]\npairs = { b = [1, 1] }\n[models.b]\npairs = { a = [1, 1] }",
            "pairs.b: the pair stands twice, here and in models.b",
        ),
        ('[models.a]\nalso = ["b"]\n[models.b]', "models.b: the name 'b' stands twice"),
        ("[models.a]\ngpu_utilisation = 60", "gpu_utilisation: expected a part from 0 to 1"),
        ("[models.a]\ngpu_memory_mb = 0", "gpu_memory_mb: expected MB above 0"),
        (
            "[models.a]\nmemory_cycle = { least_mb = 9, most_mb = 3, batch_s = 1 }",
            "models.a.memory_cycle: expected 0 < least_mb <= most_mb, not 9 and 3",
        ),
        (
            "[models.a]\nmemory_cycle = { least_mb = 1, most_mb = 3, batch_s = nan }",
            "models.a.memory_cycle.batch_s: expected seconds above 0, not nan",
        ),
        (
            "[models.a]\ngpu_memory_mb = 2\nmemory_cycle = {least_mb=1, most_mb=3, batch_s=1}",
            "models.a.memory_cycle.most_mb: more than gpu_memory_mb, 2",
        ),
        ("[models.a]\nmemory_cycle = { least_mb = 1 }", "required field `most_mb`"),
        ("[gpus.k80]\nmemory_mb = -1\n[models.a]", "gpus.k80.memory_mb: expected MB above 0"),
        ('extends = "builtin:else"\n[models.a]', "extends: expected 'builtin:published'"),
    ],
)
def test_what_is_wrong_is_refused_with_file_and_key(text: str, words: str) -> None:
    told = refused(text)
    assert told.startswith("factors.toml: ")
    assert words in told


def test_every_fault_is_told() -> None:
    told = refused(
        "[models.a]\ngpu_memory_mb = 0\nshapes = { 2x2 = 2 }\n[models.b]\nbeside = { rack = 1 }"
    )
    assert len(told.splitlines()) == 3


def test_table_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no table 'builtin:gavel'"):
        load_factors("builtin:gavel", lambda _: "")
