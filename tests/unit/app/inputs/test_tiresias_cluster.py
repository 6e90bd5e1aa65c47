"""The cluster file of the Tiresias simulator."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shunter.config import SwitchGroup, read_cluster
from shunter.errors import ConfigError

HEADER = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n"

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a text into cluster.csv and return its path."""

    def write(text: str) -> str:
        path = tmp_path / "cluster.csv"
        path.write_text(text, encoding="utf-8", newline="")
        return str(path)

    return write


def _message(path: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_cluster(path)
    return str(caught.value).replace(path, "cluster.csv")


def test_servers_of_one_switch_are_one_group(write: Write) -> None:
    assert read_cluster(write(HEADER + "1,4,4,64,256\n")) == (
        SwitchGroup("node[1-4]", "switch1", gpus=4, cpus=64, memory_gb=256.0, line=2),
    )


def test_every_switch_is_a_rack_and_servers_are_numbered_through(write: Write) -> None:
    groups = read_cluster(write(HEADER + "3,2,8,0,0\n"))
    assert [(group.name, group.rack) for group in groups] == [
        ("node[1-2]", "switch1"),
        ("node[3-4]", "switch2"),
        ("node[5-6]", "switch3"),
    ]


def test_a_switch_may_join_one_server(write: Write) -> None:
    groups = read_cluster(write(HEADER + "2,1,8,0,0\n"))
    assert [group.name for group in groups] == ["node1", "node2"]


def test_windows_lines_blank_lines_and_any_order_are_read(write: Write) -> None:
    text = "num_gpu_p_node, num_switch,num_node_p_switch\r\n\r\n8,1, 2\r\n\r\n"
    assert read_cluster(write(text)) == (
        SwitchGroup("node[1-2]", "switch1", gpus=8, cpus=0, memory_gb=0.0, line=3),
    )


@pytest.mark.parametrize(
    ("row", "column", "what"),
    [
        ("0,4,4,64,256", "num_switch", "a whole number from 1 to 100000, not '0'"),
        ("x,4,4,64,256", "num_switch", "a whole number from 1 to 100000, not 'x'"),
        ("1,-4,4,64,256", "num_node_p_switch", "a whole number from 1 to 100000, not '-4'"),
        ("1,4,65,64,256", "num_gpu_p_node", "a whole number from 1 to 64, not '65'"),
        ("1,4,0,64,256", "num_gpu_p_node", "a whole number from 1 to 64, not '0'"),
        ("1,4,2.5,64,256", "num_gpu_p_node", "a whole number from 1 to 64, not '2.5'"),
        ("1,4,,64,256", "num_gpu_p_node", "a whole number from 1 to 64, not ''"),
        ("1,4,4,-1,256", "num_cpu_p_node", "a whole number from 0 to 2147483647, not '-1'"),
        ("1,4,4,64,nan", "mem_p_node", "a number of GB from 0 to 1e+09, not 'nan'"),
        ("1,4,4,64,lots", "mem_p_node", "a number of GB from 0 to 1e+09, not 'lots'"),
    ],
)
def test_wrong_number_names_file_line_and_column(
    write: Write, row: str, column: str, what: str
) -> None:
    message = _message(write(f"{HEADER}\n{row}\n"))
    assert message == f"cluster.csv, line 3, column {column}: expected {what}"


def test_row_of_a_cluster_ends_at_a_line_feed_and_at_nothing_else(write: Write) -> None:
    message = _message(write(HEADER + "1,4\u2028,4,64,256\n1,4,x,64,256\n"))
    assert message.startswith("cluster.csv, line 3: a second row")


def test_every_wrong_number_gets_a_line(write: Write) -> None:
    message = _message(write(HEADER + "1,x,4,y,z\n"))
    assert [line.split()[4] for line in message.splitlines()] == [
        "num_node_p_switch:",
        "num_cpu_p_node:",
        "mem_p_node:",
    ]


def test_too_many_servers_are_refused(write: Write) -> None:
    assert _message(write(HEADER + "1000,101,4,64,256\n")) == (
        "cluster.csv, line 2, column num_node_p_switch: "
        "101000 servers in all; expected at most 100000"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cluster.csv is empty: expected the header num_switch,num_node_p_switch,"),
        ("\n \n", "cluster.csv is empty: expected the header"),
        (HEADER, "cluster.csv: only a header; expected one row"),
        (HEADER + "1,4,4,64,256\n\n1,2,8,64,256\n", "cluster.csv, line 4: a second row; expected"),
        (HEADER + "1,4,4,64\n", "cluster.csv, line 2: 4 fields, expected 5 as in the header"),
        (HEADER + '1,4,"4,64,256\n', "cluster.csv, line 2: not valid CSV"),
        (
            "num_switch,num_gpu_p_node,gpus\n1,4,4\n",
            "cluster.csv, line 1: missing column num_node_p_switch; unknown column 'gpus'; ",
        ),
        ("num_switch," + HEADER, "cluster.csv, line 1: column num_switch stands twice; expected"),
    ],
)
def test_broken_file_is_an_error_that_says_where(write: Write, text: str, message: str) -> None:
    assert _message(write(text)).startswith(message)


def test_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file .*nope\.csv; check the path"):
        read_cluster(str(tmp_path / "nope.csv"))


def test_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_cluster(str(tmp_path))


def test_file_that_is_no_text_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "cluster.csv"
    path.write_bytes(HEADER.encode() + b"1,\xff,4\n")
    with pytest.raises(ConfigError, match=r"line 2: not UTF-8 text \(byte 72\)"):
        read_cluster(str(path))
