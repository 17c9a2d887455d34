"""What must be in an sdist and in a wheel, and what must not.

An sdist has what building and reading it takes; a wheel has every module, the marker for type
checkers, its metadata, and, if it is a compiled one, the twins. Neither has tests, sources of
compiled code that nobody asked for, or a path of the machine that it was built on.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement

PACKAGES = ("rocketpipe", "pyspark_rocketpipe", "pytest_rocketpipe")
MACHINE = re.compile(rb"/(?:w[o]rk|r[o]ot|h[o]me/\w+)/")


class Unfit(Exception):
    """What was built is not fit to be handed out; the message says why."""


def twins(tree: Path) -> list[Path]:
    """The sources of compiled code in a tree."""
    return sorted((tree / "src").glob("rocketpipe/**/_*.pyx"))


def names_in(archive: Path) -> set[str]:
    """The files in a wheel or an sdist; without the sdist's own directory."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return set(opened.namelist())
    with tarfile.open(archive) as packed:
        return {member.name.partition("/")[2] for member in packed if member.isfile()}


def modules_of(tree: Path) -> set[str]:
    found = {
        path.relative_to(tree / "src").as_posix()
        for package in PACKAGES
        for path in (tree / "src" / package).rglob("*.py")
    }
    # What the console's pages are made of.
    pages = tree / "src" / "rocketpipe" / "console" / "pages"
    found |= {
        path.relative_to(tree / "src").as_posix() for path in pages.rglob("*") if path.is_file()
    }
    return found | {"rocketpipe/py.typed"}


def look_into_sdist(sdist: Path, tree: Path) -> None:
    """See that an sdist has what building and reading it takes, and no more.

    Raises:
        Unfit: It lacks something, or has what does not belong there.
    """
    version = project_version(tree)
    if sdist.name != f"rocketpipe-{version}.tar.gz":
        raise Unfit(f"{sdist.name}: should be named rocketpipe-{version}.tar.gz")
    names = names_in(sdist)
    wanted = {f"src/{name}" for name in modules_of(tree)}
    wanted |= {path.relative_to(tree).as_posix() for path in twins(tree)}
    wanted |= {"pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md"}
    made = {name for name in names if name.startswith("src/rocketpipe.egg-info/")}
    made |= {"PKG-INFO", "setup.cfg"}
    beside = {name for name in names if name.endswith((".pxd", ".pyi"))}
    compare(sdist, names - made - beside, wanted)


def look_into_wheel(wheel: Path, tree: Path, *, foreign: Sequence[str] = ()) -> None:
    """See that a wheel has every module and nothing else, and says of itself what is so.

    ``foreign`` are paths of this machine that no file in it may name.

    Raises:
        Unfit: Something is missing, too much or wrong.
    """
    version = project_version(tree)
    info = f"rocketpipe-{version}.dist-info"
    tag = wheel.name.removeprefix(f"rocketpipe-{version}-").removesuffix(".whl")
    pure = tag == "py3-none-any"
    if not pure and not (tag.startswith("cp") and platform_part() in tag):
        raise Unfit(f"{wheel.name}: its name says that it is for something else than this machine")
    with zipfile.ZipFile(wheel) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    compiled = {
        path.relative_to(tree / "src").with_name(f"{path.stem}{suffix}").as_posix()
        for path in twins(tree)
    }
    own = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}
    stubs = {
        path.relative_to(tree / "src").as_posix() for path in (tree / "src").rglob("*_pb2.pyi")
    }
    wanted = modules_of(tree) | stubs | {f"{info}/{name}" for name in own}
    wanted |= set() if pure else compiled
    compare(wheel, set(files), wanted)
    check_record(wheel, files, f"{info}/RECORD")
    said = HeaderParser().parsestr(files[f"{info}/WHEEL"].decode())
    if (said["Root-Is-Purelib"], said["Tag"]) != (str(pure).lower(), tag):
        raise Unfit(f"{wheel.name}: WHEEL says {said['Tag']}, {said['Root-Is-Purelib']}")
    check_metadata(wheel, files[f"{info}/METADATA"].decode(), tree)
    for name, content in files.items():
        found = MACHINE.search(content)
        if found or any(path.encode() in content for path in foreign):
            raise Unfit(f"{wheel.name}: {name} names a path of the machine it was built on")


def compare(archive: Path, there: set[str], wanted: set[str]) -> None:
    lost, strange = sorted(wanted - there), sorted(there - wanted)
    if lost or strange:
        raise Unfit(f"{archive.name}: without {lost[:9]}, with {strange[:9]} that do not belong")


def check_record(wheel: Path, files: dict[str, bytes], record: str) -> None:
    for name, digest, size in csv.reader(io.StringIO(files[record].decode())):
        if name == record:
            continue
        if (digest, int(size)) != (digest_of(files[name]), len(files[name])):
            raise Unfit(f"{wheel.name}: {name} is not what RECORD says")


def digest_of(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"


def check_metadata(wheel: Path, text: str, tree: Path) -> None:
    said = HeaderParser().parsestr(text)
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {str(Requirement(each)) for each in project["dependencies"]}
    wanted |= {
        f'{Requirement(each)}; extra == "{extra}"' for extra in extras for each in extras[extra]
    }
    facts = {
        "name": (said["Name"], project["name"]),
        "version": (said["Version"], project_version(tree)),
        "Python": (said["Requires-Python"], project["requires-python"]),
        "license": (said["License-Expression"], project["license"]),
        "extras": (set(said.get_all("Provides-Extra") or ()), set(extras)),
        "dependencies": (
            {str(Requirement(each)) for each in said.get_all("Requires-Dist")},
            wanted,
        ),
    }
    for name, (found, expected) in facts.items():
        if found != expected:
            raise Unfit(f"{wheel.name}: {name} is {found}, pyproject.toml has {expected}")


def project_version(tree: Path) -> str:
    text = (tree / "src" / "rocketpipe" / "_version.py").read_text()
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


def platform_part() -> str:
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def check_pins(tree: Path) -> None:
    """See that what each extra asks for is among the versions that are pinned and tried here.

    Raises:
        Unfit: A name is misspelt, or a pin is outside of what the extra allows.
    """
    pins: dict[str, set[str]] = {}
    for path in (tree / "requirements").glob("*.txt"):
        for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", path.read_text(), re.MULTILINE):
            pins.setdefault(name.lower().replace("_", "-"), set()).add(version)
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    wanted = {"": project["dependencies"], **project["optional-dependencies"]}
    for extra, requirements in wanted.items():
        for requirement in map(Requirement, requirements):
            pinned = pins.get(requirement.name.lower(), set())
            if not any(requirement.specifier.contains(version) for version in pinned):
                raise Unfit(f"extra {extra!r}: {requirement}, and requirements/ pins {pinned}")
