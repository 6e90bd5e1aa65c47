"""The agent as one file, for hosts on which Shunter is not installed: a zip application.

    python3 -I -S FILE VERB ...     any Python from 3.8 on; the verbs are those of verbs.py

It holds the modules of `shunter.backends.node` under the names by which they import each other, and
empty packages around them. Beside each module lies its code, compiled by this Python: hosts with
the same version need not compile it at each start, and others pass over it (PEP 552, of the kind
that is not checked against the source, as both come together).

Nothing in it is compressed, dates are fixed and names in order: the same sources give the same
bytes under one version of Python, with any zlib, so that a host that has a file of this digest
needs no other. See docs/decisions/0034-the-agent-is-a-zip-application.md.
"""

import io
import marshal
import os
import zipfile
from contextlib import suppress
from hashlib import sha256
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

from shunter.backends import node
from shunter.backends.node.records import create_private, own_folder

NODE = Path(node.__file__).parent
NOT_PACKED = ("wire.py", "host/base_folder.py")
"""What the type checker alone reads, and what comes over stdin instead."""
PACKAGES = ("shunter", "shunter/backends")
IN_ZIP = "shunter/backends/node"
FIRST_DATE = (1980, 1, 1, 0, 0, 0)  # zip files know none before it
UNIX, MODE = 3, 0o100644
UNCHECKED = (1).to_bytes(4, "little")
WITHOUT_REFERENCES = 2
"""The format of marshal before references, which hang on what else a process holds."""
MAIN = """\
import sys

if sys.version_info < (3, 8):
    raise SyntaxError("the agent of Shunter needs Python 3.8 or later")

from shunter.backends.node.verbs import main

main()
"""


def zip_application() -> bytes:
    """Return the file; it needs the standard library of Python 3.8 or later."""
    packed = {f"{name}/__init__.py": b"" for name in PACKAGES}
    packed["__main__.py"] = MAIN.encode()
    for path in sorted(NODE.rglob("*.py")):
        name = path.relative_to(NODE).as_posix()
        if name not in NOT_PACKED:
            packed[f"{IN_ZIP}/{name}"] = source = path.read_bytes()
            with suppress(ValueError):  # newer versions of Python may have what it cannot say
                packed[f"{IN_ZIP}/{name}c"] = _compiled(source, f"{IN_ZIP}/{name}")
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name in sorted(packed):
            about = zipfile.ZipInfo(name, FIRST_DATE)
            about.create_system, about.external_attr = UNIX, MODE << 16
            archive.writestr(about, packed[name])
    return written.getvalue()


def _compiled(source: bytes, name: str) -> bytes:
    """Return what Python keeps of a module in its cache.

    Raises:
        ValueError: the format without references does not know something in it.
    """
    code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    head = MAGIC_NUMBER + UNCHECKED + source_hash(source)
    return head + marshal.dumps(code, WITHOUT_REFERENCES)


def installer() -> bytes:
    """Return the program that puts the file on a host: see host/base_folder.py."""
    source = (NODE / "host/base_folder.py").read_bytes()
    return source + b"\n\ninstall(*sys.argv[3:])\n"


def install_shared(folder: str) -> str:
    """Put the file into a folder that other machines share; return its path.

    Raises:
        OSError: it cannot be written.
    """
    content = zip_application()
    own_folder(folder)
    path = Path(folder) / f"shunter-{digest(content)}.pyz"
    if not path.exists() or path.read_bytes() != content:
        fresh = path.with_suffix(f".{os.getpid()}")
        with create_private(str(fresh)) as file:
            file.buffer.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    return str(path)


def digest(content: bytes) -> str:
    """Return what the file is named by: 16 hexadecimal digits of its SHA-256."""
    return sha256(content).hexdigest()[:16]
