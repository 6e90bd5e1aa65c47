from pathlib import Path
from typing import Any

from shunter.addresses import TcpAddress, UnixAddress
from shunter.config import load_config, make_config

LIVE: dict[str, Any] = {
    "cluster": {"nodes": [{"name": "n1", "gpus": 2, "type": "v100"}]},
    "backend": {"kind": "local", "local": {"root": "attempts"}},
    "log": {"url": "live.sqlite"},
}


def made(**server: Any) -> Any:
    return make_config({**LIVE, "server": server}).config.server


def test_a_socket_of_this_user_is_the_default() -> None:
    server = make_config(LIVE).config.server
    assert isinstance(server.addresses[0], UnixAddress)
    assert server.socket_mode == "0600"


def test_one_address_or_a_list_may_be_named() -> None:
    assert made(listen="unix:/run/a.sock").listen == ("unix:/run/a.sock",)
    listen = ["unix:/run/a.sock", "tcp:127.0.0.1:8711"]
    server = made(listen=listen, token_file="tokens")
    assert server.addresses == (UnixAddress("/run/a.sock"), TcpAddress("127.0.0.1", 8711))


def test_a_public_address_with_token_and_tls_is_allowed() -> None:
    tls = {"certificate": "c.pem", "key": "k.pem"}
    server = made(listen="tcp:0.0.0.0:8711", token_file="t", tls=tls)
    assert server.addresses == (TcpAddress("0.0.0.0", 8711),)


def test_files_of_the_section_lie_beside_the_config_file(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        '[[cluster.nodes]]\nname = "n1"\ngpus = 1\ntype = "v100"\n'
        '[backend]\nkind = "local"\n[backend.local]\nroot = "attempts"\n'
        '[server]\nlisten = "tcp:127.0.0.1:0"\ntoken_file = "tokens"\n'
        '[server.tls]\ncertificate = "c.pem"\nkey = "k.pem"\n[log]\nurl = "live.sqlite"\n',
        encoding="utf-8",
    )
    server = load_config(tmp_path / "site.toml", environ={}).config.server
    assert server.tls is not None
    files = (server.token_file, server.tls.certificate, server.tls.key)
    assert files == tuple(str(tmp_path / name) for name in ("tokens", "c.pem", "k.pem"))
