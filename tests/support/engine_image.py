"""The embedded engine as a container image: this project's own wheel over the kit's Python, called as vLLM is.

Two layers: what the engine imports, in this environment's versions, and the wheel. Each is made once and kept in the
kit's cache under a name that says what is in it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from cluster_kit import DOMAIN, KIT, ROOT, cache, checked

IMPORTED = ("starlette", "uvicorn", "httptools", "uvloop", "prometheus-client", "pydantic", "ruamel.yaml")
"""What `runner.simulator` imports of others; a test holds the list to the code."""
SITE = "usr/local/lib/python3.11/dist-packages"
"""Where Debian's Python 3.11 looks for what is not Debian's."""
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
SCRIPTS = {
    "vllm": """\
#!/bin/sh
# The embedded engine in vLLM's place: vllm serve MODEL ...
export PYTHONUNBUFFERED=1 PYTHONIOENCODING=utf-8
exec python3 -m runner.simulator "$@"
""",
    "nvidia-smi": """\
#!/bin/sh
# The embedded engine's GPU. Its samples are counted over all processes of the container.
export SIMULATOR_NVIDIA_SMI_SAMPLES="${SIMULATOR_NVIDIA_SMI_SAMPLES:-/tmp/nvidia-smi.samples}"
exec python3 -m runner.simulator nvidia-smi "$@"
""",
}


@dataclass(frozen=True)
class EngineImage:
    name: str
    archive: Path


def make() -> EngineImage:
    """The image of the checkout as it is now, from the cache where it was made before."""
    folder = cache() / "engine"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        below = _dependencies(folder, Path(scratch))
        wheel = _wheel(Path(scratch))
        content = [wheel.read_bytes(), below.name.encode(), repr(SCRIPTS).encode(), Path(__file__).read_bytes()]
        name = f"{DOMAIN}/engine:{_digest(*content)}"
        archive = folder / f"engine-{name.rpartition(':')[2]}.tar"
        if not archive.exists():
            root = Path(scratch) / "engine"
            _install(root / SITE, "--no-deps", str(wheel))
            for program, text in SCRIPTS.items():
                place = root / "usr" / "local" / "bin" / program
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
                place.chmod(0o755)
            _pack(name, archive, root, "--base", below, "--entrypoint", "vllm", "serve")
            _keep_newest(folder)
        return EngineImage(name, archive)


def pins() -> list[str]:
    """`name==version` of everything that the engine imports, and what that needs in turn, as installed here."""
    found: dict[str, str] = {}
    asked = list(IMPORTED)
    while asked:
        name = _canonical(asked.pop())
        if name not in found:
            found[name] = metadata.version(name)
            asked += _needs(name)
    return sorted(f"{name}=={version}" for name, version in found.items())


def _needs(name: str) -> Iterator[str]:
    """What a distribution requires without extras, where it is installed: a marker may have left it out."""
    for requirement in metadata.requires(name) or ():
        needed = re.match(r"[A-Za-z0-9._-]+", requirement)
        if needed is not None and "extra ==" not in requirement:
            try:
                metadata.version(needed[0])
            except metadata.PackageNotFoundError:
                continue
            yield needed[0]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _wheel(scratch: Path) -> Path:
    """This project's wheel; the same bytes from the same files."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", scratch / "dist", ROOT]
    checked(build, {**os.environ, "SOURCE_DATE_EPOCH": "1580601600"})
    [wheel] = (scratch / "dist").glob("*.whl")
    return wheel


def _dependencies(folder: Path, scratch: Path) -> Path:
    base = cache() / "images" / "python.tar"
    key = _digest(base.read_bytes(), "\n".join(pins()).encode(), Path(__file__).read_bytes())
    archive = folder / f"dependencies-{key}.tar"
    if not archive.exists():
        root = scratch / "dependencies"
        platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
        _install(root / SITE, *platforms, "--python-version", "3.11", "--only-binary", ":all:", "--no-deps", *pins())
        _pack(f"{DOMAIN}/dependencies:{key}", archive, root, "--base", base)
    return archive


def _install(target: Path, *words: str) -> None:
    """`pip install` into a folder, with bytecode where this Python is the image's: a container starts sooner."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    checked([*pip, "--target", target, *words])
    shutil.rmtree(target / "bin", ignore_errors=True)
    if sys.version_info[:2] == (3, 11):
        compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
        # The files' paths in the image stand in the bytecode, not those of the scratch folder.
        subprocess.run([*compiled, "-s", str(target), "-p", f"/{SITE}", str(target)], check=False, capture_output=True)


def _pack(name: str, archive: Path, root: Path, *words: str | Path) -> None:
    """Under its name only once it is complete."""
    unfinished = archive.with_suffix(f".{os.getpid()}")
    checked([KIT / "mkimage", name, unfinished, root, *words])
    unfinished.replace(archive)


def _keep_newest(folder: Path, count: int = 4) -> None:
    """Every change of the code makes an image; the last few are enough."""
    for kind in ("engine", "dependencies"):
        kept = sorted(folder.glob(f"{kind}-*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in kept[count:]:
            path.unlink()


def _digest(*content: bytes) -> str:
    return hashlib.sha256(b"\0".join(content)).hexdigest()[:12]
