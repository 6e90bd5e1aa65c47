import tomllib

from shunter.config import lines_of_keys

TEXT = '''\
# a = 1
top = 1
[a]
b.c = 2   # d = 3
text = """
e = 4
"""
list = [
  1, # ]
  "x = 5",
]
after = 6
[[a.items]]
k = 1
[[a.items]]
k = { j = 2 }
[a.items.inner]
"quoted key" = 7
'''


def test_every_key_has_its_line() -> None:
    assert tomllib.loads(TEXT)

    lines = lines_of_keys(TEXT)

    assert lines == {
        ("top",): 2,
        ("a",): 3,
        ("a", "b", "c"): 4,
        ("a", "text"): 5,
        ("a", "list"): 8,
        ("a", "after"): 12,
        ("a", "items", 0): 13,
        ("a", "items", 0, "k"): 14,
        ("a", "items", 1): 15,
        ("a", "items", 1, "k"): 16,
        ("a", "items", 1, "inner"): 17,
        ("a", "items", 1, "inner", "quoted key"): 18,
    }


def test_line_of_toml_ends_at_a_line_feed_and_at_nothing_else() -> None:
    text = 'a = "x\u2028b = 1\u0085"\nc = 2\n'
    assert tomllib.loads(text)
    assert lines_of_keys(text) == {("a",): 1, ("c",): 2}
