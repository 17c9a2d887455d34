"""deploy/Dockerfile as its stages, and as much of what an engine does with it as needs none."""

from __future__ import annotations

import fnmatch
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"

Stage = list[tuple[str, str]]


def stages() -> list[Stage]:
    """The instructions of each stage, beginning with its FROM."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    found: list[Stage] = []
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        if word:
            found[-1].append((word, rest))
    return found


def rests(stage: Stage, word: str) -> list[str]:
    """What follows a word, for each time that a stage has it."""
    return [rest for found, rest in stage if found == word]


def sent_to_the_engine(path: Path) -> bool:
    """Whether Dockerfile.dockerignore lets a file of the tree through; the last match decides."""
    name = path.relative_to(ROOT).as_posix()
    sent = True
    for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        kept, pattern = line.startswith("!"), line.removeprefix("!")
        at_any_depth = pattern.removeprefix("**/")
        parts = [name, *(parent.as_posix() for parent in Path(name).parents if parent.name)]
        if any(
            fnmatch.fnmatchcase(part, pattern)
            or (pattern != at_any_depth and fnmatch.fnmatchcase(Path(part).name, at_any_depth))
            for part in parts
        ):
            sent = kept
    return sent


def copy_into(workdir: Path, stage: Stage) -> None:
    """Do what a stage's COPY lines say, from what an engine is sent."""
    for rest in rests(stage, "COPY"):
        *sources, target = rest.split()
        for source in sources:
            place = workdir / target
            found = ROOT / source
            for file in sorted(found.rglob("*")) if found.is_dir() else [found]:
                if file.is_file() and sent_to_the_engine(file):
                    below = file.relative_to(found) if found.is_dir() else Path(file.name)
                    (place / below).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, place / below)
