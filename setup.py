"""The compiled twins of the hot functions, where they can be built; the rest is in pyproject.toml.

Each `_name.pyx` beside a `name.py` becomes an extension module. All of them are optional: without
Cython or a working C compiler the package installs all the same and runs on the Python versions.
`ROCKETPIPE_PURE=1` leaves them out on purpose.
"""

import os
import runpy
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


def compiled_twins() -> list[Extension]:
    sources = sorted(Path("src").glob("rocketpipe/**/_*.pyx"))
    if not sources or os.environ.get("ROCKETPIPE_PURE") == "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    extensions = [
        Extension(".".join(source.relative_to("src").with_suffix("").parts), [str(source)])
        for source in sources
    ]
    # The C files go where builds go, so that the source tree holds only what people wrote.
    twins: list[Extension] = cythonize(
        extensions, build_dir="build/cython", compiler_directives={"language_level": 3}
    )
    # A twin knows its source, so that it is not used beside another: `rocketpipe.compiled`.
    package = Path("src/rocketpipe")
    digest = runpy.run_path(str(package / "compiled.py"))["digest"]
    for twin in twins:
        made_from = digest(package, Path("src", *twin.name.split(".")).with_suffix(".pyx"))
        twin.define_macros = [("ROCKETPIPE_SOURCE", f'"{made_from}"')]
        # Debugging information would name the directory that this was built in.
        twin.extra_compile_args = ["-O3", "-g0"]
        # A failed build is then a warning, and the module stays out. Set here and not above:
        # cythonize makes extensions of its own, and forgets this on the way.
        twin.optional = True
    return twins


class BuildTwins(build_ext):
    """Builds what runs on any machine: twins use no library of the Python they are built with."""

    def build_extensions(self) -> None:
        # Some Pythons have each module remember in which directory they are themselves.
        link = self.compiler.linker_so
        self.compiler.linker_so = [word for word in link if not word.startswith("-Wl,-rpath")]
        super().build_extensions()


setup(ext_modules=compiled_twins(), cmdclass={"build_ext": BuildTwins})
