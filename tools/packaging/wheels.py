"""Build what is handed out, and use it where nothing else is: what `make wheels` runs.

    1  the sdist, from a copy of the tree
    2  a wheel without compiled code, from the sdist alone; again elsewhere: the same bytes
    3  a wheel with the compiled twins, from the sdist alone, where a C compiler works
    4  look into them: metadata, every file, checksums, no path of this machine
    5  install each into an environment of its own, with its dependencies and without a compiler,
       and use it as `installed.py` beside this says; and what the sdist makes where no compiler is
    6  the same with other Pythons of this machine, and what extras ask of the package index

Nothing up to 5 needs a network: dependencies are what .venv has, packed back into wheels. What
cannot be done on a machine is said aloud. `--quick` ends after 5; what is built is left in dist/.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import sys_tags

from tools.packaging.wheel_contents import (
    Unfit,
    check_pins,
    digest_of,
    look_into_sdist,
    look_into_wheel,
    names_in,
    twins,
)

ROOT = Path(__file__).resolve().parent.parent.parent
INSTALLED = Path(__file__).with_name("installed.py")
NOT_COPIED = (".*", "build", "dist", "out", "__pycache__", "*.so", "*.egg-info", "golden")
# Of zip files the oldest day; whoever builds may name another one.
EPOCH = "315532800"
HOOK = """
import sys
from setuptools import build_meta
print(getattr(build_meta, sys.argv[1])(sys.argv[2]))
"""


@dataclass(frozen=True, slots=True)
class Built:
    """What there is to hand out; ``compiled`` is None where no compiler works.

    ``tree`` is the copy that it was built from: the tree itself may have changed since.
    """

    tree: Path
    sdist: Path
    pure: Path
    compiled: Path | None


def say(text: str) -> None:
    print(f"wheels: {text}", flush=True)


# --- building ------------------------------------------------------------------------------------


def build(into: Path, scratch: Path, *, twice: bool = True, compiled: bool = True) -> Built:
    """Build the sdist from the tree, and wheels from the sdist; the pure one ``twice``, to compare.

    Raises:
        Unfit: A build failed; the message has its output.
    """
    into.mkdir(parents=True, exist_ok=True)
    tree = scratch / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*NOT_COPIED))
    sdist = run_hook("build_sdist", tree, into, {"ROCKETPIPE_PURE": "1"})
    pure = build_wheel(sdist, into, scratch / "pure", pure=True)
    if twice:
        again = build_wheel(sdist, scratch / "again", scratch / "elsewhere" / "pure", pure=True)
        if again.read_bytes() != pure.read_bytes():
            raise Unfit(f"{pure.name}: built twice from {sdist.name}, and not the same both times")
    if not compiled or not twins(tree):
        return Built(tree, sdist, pure, None)
    wheel = build_wheel(sdist, scratch / "dist", scratch / "compiled")
    if not any(name.endswith(".so") for name in names_in(wheel)):
        say("no compiled wheel: no C compiler works here, and none is needed for the pure one")
        return Built(tree, sdist, pure, None)
    return Built(tree, sdist, pure, Path(shutil.move(wheel, into / wheel.name)))


def build_wheel(
    sdist: Path, into: Path, scratch: Path, *, pure: bool = False, path: str | None = None
) -> Path:
    """Build a wheel from nothing but an sdist; ``path`` is where programs are looked for."""
    scratch.mkdir(parents=True)
    into.mkdir(parents=True, exist_ok=True)
    # Pythons before 3.11.4 have no filters; it was made a moment ago, by ourselves.
    safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, **safely)
    (tree,) = scratch.iterdir()
    extra = {"ROCKETPIPE_PURE": "1" if pure else "0"} | ({} if path is None else {"PATH": path})
    return run_hook("build_wheel", tree, into, extra)


def run_hook(hook: str, tree: Path, into: Path, extra: dict[str, str] | None = None) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", HOOK, hook, str(into)],
        cwd=tree,
        env={"SOURCE_DATE_EPOCH": EPOCH, **plain_environment(), **(extra or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unfit(f"{hook} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return into / done.stdout.split()[-1]


def plain_environment() -> dict[str, str]:
    """The environment without what would show Python another tree, or pip another place."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "ROCKETPIPE_", "PIP_TARGET", "PIP_PREFIX", "COV_"))
    }


# --- dependencies without a network --------------------------------------------------------------


def pack_dependencies(names: Iterable[str], into: Path) -> None:
    """Make wheels of distributions that this Python has, and of all that they need.

    Raises:
        Unfit: One is not installed: .venv is not what `make setup` makes.
    """
    into.mkdir(parents=True, exist_ok=True)
    waiting, done = list(names), set()
    while waiting:
        name = waiting.pop()
        if name.lower() in done:
            continue
        done.add(name.lower())
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise Unfit(f"{name} is not in .venv: run make setup") from None
        pack(found, into)
        for requirement in map(Requirement, found.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)


def pack(found: metadata.Distribution, into: Path) -> Path:
    """Put an installed distribution back into a wheel, as it was before it was installed."""
    said = HeaderParser().parsestr(found.read_text("WHEEL") or "")
    ours = {str(tag) for tag in sys_tags()}
    tag = next(tag for tag in said.get_all("Tag") or () if tag in ours)
    stem = f"{re.sub(r'[-_.]+', '_', found.metadata['Name'])}-{found.version}"
    rows, info = [], ""
    wheel = into / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        for file in found.files or ():
            if file.name == "RECORD":
                info = file.parent.as_posix()
            # Scripts are made anew from entry points; the rest is what installers leave.
            elif ".." not in file.parts and not file.name.endswith(
                (".pyc", "INSTALLER", "REQUESTED", "direct_url.json")
            ):
                content = Path(str(file.locate())).read_bytes()
                packed.writestr(file.as_posix(), content)
                rows.append(f"{file.as_posix()},{digest_of(content)},{len(content)}")
        packed.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,\n"]))
    return wheel


# --- using it ------------------------------------------------------------------------------------


def empty_environment(directory: Path, python: str = sys.executable) -> Path:
    """Make an environment without even pip, and give its Python."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(directory)], check=True)
    return directory / "bin" / "python"


def pip(python: Path, verb: str) -> list[str]:
    """The command by which this Python does something to another one's environment.

    Raises:
        Unfit: There is none.
    """
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--python", str(python), verb]
    uv = shutil.which("uv")  # which makes environments without pip
    if uv is None or verb != "install":
        raise Unfit(f"there is no pip in {sys.prefix}: .venv/bin/python -m ensurepip brings it")
    return [uv, "pip", verb, "--python", str(python)]


def install(python: Path, *arguments: str, index: bool = False) -> None:
    """Have pip install from outside, with no program at hand but those of the environment.

    Raises:
        Unfit: It did not; the message has its last lines.
    """
    command = [*pip(python, "install"), "--quiet", "--no-compile"]
    if not index:
        command += ["--no-index", "--no-cache-dir"]
    environment = plain_environment() | {
        "PATH": str(python.parent),
        "CC": "no-such-compiler",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    done = subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unfit(f"pip install {' '.join(arguments)}:\n{done.stderr[-2000:]}")


def use(python: Path, scratch: Path, engine: str) -> str:
    """Have what is installed serve, send, receive and test; give what it says in the end.

    Raises:
        Unfit: It does not; the message says where.
    """
    scratch.mkdir(parents=True)
    done = subprocess.run(
        [str(python), "-I", str(INSTALLED), str(scratch), engine],
        cwd=scratch,
        env=plain_environment() | {"PATH": str(python.parent), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unfit(f"what was installed does not work:\n{done.stdout[-6000:]}")
    return done.stdout.strip().splitlines()[-1]


def install_and_use(wheel: Path, wheelhouse: Path, scratch: Path, extras: str = "") -> str:
    """Install a wheel into an empty environment, and use it there."""
    python = empty_environment(scratch / "environment")
    install(python, "--find-links", str(wheelhouse), f"{wheel}{extras}", "pytest")
    engine = "compiled" if any(name.endswith(".so") for name in names_in(wheel)) else "pure"
    return use(python, scratch / "use", engine)


# --- the longer part -----------------------------------------------------------------------------


def index_answers(scratch: Path) -> bool:
    """Whether pip can get something from the package index."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    done = subprocess.run(
        [
            *command,
            "--retries",
            "1",
            "--timeout",
            "15",
            "--dest",
            str(scratch / "asked"),
            "iniconfig",
        ],
        env=plain_environment(),
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def ask_for_extras() -> None:
    """See that the package index has, for this Python, what each extra asks for.

    Raises:
        Unfit: It has nothing that fits.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, requirements in project["optional-dependencies"].items():
        newest = [newest_that_fits(Requirement(each)) for each in requirements]
        say(f"rocketpipe[{extra}]: {', '.join(newest)}")


def newest_that_fits(wanted: Requirement) -> str:
    # Asking for names, not installing: Spark alone is a download of some hundred megabytes.
    done = subprocess.run(
        [sys.executable, "-m", "pip", "index", "versions", wanted.name],
        env=plain_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    listed = re.search(r"^Available versions: (.*)$", done.stdout, re.MULTILINE)
    fitting = wanted.specifier.filter(listed[1].split(", ") if listed else [])
    newest = next(iter(fitting), None)  # they are listed from the newest on
    if newest is None:
        raise Unfit(f"the package index has nothing for {wanted}: {done.stderr[-300:]}")
    return f"{wanted.name} {newest}"


def other_pythons() -> list[str]:
    found = {}
    for minor in range(11, 20):
        program = shutil.which(f"python3.{minor}")
        if program is None or minor == sys.version_info.minor:
            continue
        asked = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            found[asked.stdout.strip()] = program
    return list(found.values())


def with_other_python(program: str, built: Built, scratch: Path) -> None:
    """Build the compiled wheel with another Python, and use both there."""
    python = empty_environment(scratch / "pure", program)
    asked = subprocess.run([python, "--version"], capture_output=True, text=True, check=True)
    shown = asked.stdout.strip()
    install(python, str(built.pure), "pytest", index=True)
    say(f"{shown}: {use(python, scratch / 'use', 'pure')}")
    if built.compiled is None:
        return
    python = empty_environment(scratch / "compiled", program)
    subprocess.run(
        [
            *pip(python, "wheel"),
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            str(scratch / "dist"),
            str(built.sdist),
        ],
        env=plain_environment(),
        check=True,
    )
    (wheel,) = (scratch / "dist").iterdir()
    install(python, str(wheel), "pytest", index=True)
    say(f"{shown}: {use(python, scratch / 'use compiled', 'compiled')}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build sdist and wheels, and use them.")
    parser.add_argument("--quick", action="store_true", help="only what needs no network")
    parser.add_argument("--into", type=Path, default=ROOT / "dist", metavar="DIR")
    parser.add_argument(
        "--python", action="append", metavar="PROGRAM", help="another Python to try, beside PATH's"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rocketpipe-wheels-") as name:
        scratch = Path(name)
        try:
            built = everything(options.into.absolute(), scratch)
            if not options.quick:
                longer(built, scratch, [*other_pythons(), *(options.python or ())])
        except Unfit as error:
            say(str(error))
            return 1
    return 0


def everything(into: Path, scratch: Path) -> Built:
    """Build, look and use, without a network."""
    built = build(into, scratch / "build")
    check_pins(built.tree)
    look_into_sdist(built.sdist, built.tree)
    wheels = [wheel for wheel in (built.pure, built.compiled) if wheel is not None]
    wheelhouse = scratch / "wheelhouse"
    pack_dependencies(["msgspec", "lz4", "zstandard", "uvloop", "pytest"], wheelhouse)
    say(f"{built.sdist.name}: whole")
    for number, wheel in enumerate(wheels):
        look_into_wheel(wheel, built.tree, foreign=[str(scratch), str(ROOT)])
        place = scratch / f"installed-{number}"
        say(f"{wheel.name}: {install_and_use(wheel, wheelhouse, place)}")
        place = scratch / f"extras-{number}"
        said = install_and_use(wheel, wheelhouse, place, "[compression,fast]")
        say(f"{wheel.name}[compression,fast]: {said}")
    place = scratch / "no compiler"
    wheel = build_wheel(built.sdist, place / "dist", place / "build", path=str(place / "nothing"))
    said = install_and_use(wheel, wheelhouse, place)
    say(f"{built.sdist.name} where there is no compiler: {said}")
    return built


def longer(built: Built, scratch: Path, pythons: list[str]) -> None:
    """Try what the package index has, and other Pythons with it."""
    if not index_answers(scratch):
        say("left out, as the package index cannot be reached: the other extras, other Pythons")
        return
    ask_for_extras()
    wheel, engine = (built.pure, "pure") if built.compiled is None else (built.compiled, "compiled")
    python = empty_environment(scratch / "arrow" / "environment")
    install(python, f"{wheel}[arrow]", "pytest", index=True)
    say(f"{wheel.name}[arrow]: {use(python, scratch / 'arrow' / 'use', engine)}")
    if not pythons:
        say(f"no Python beside {sys.executable} was found: name others with --python")
    for number, program in enumerate(pythons):
        with_other_python(program, built, scratch / f"other-{number}")


if __name__ == "__main__":
    sys.exit(main())
