"""The compiled twins of the hot functions, where they can be built; the rest is in pyproject.toml.

Each `_hot.pyx` beside a `hot.py` becomes an extension module. All of them are optional: without
Cython or a working C compiler the package installs all the same and runs on the Python versions.
`ROCKETPIPE_PURE=1` leaves them out on purpose.
"""

import os
from pathlib import Path

from setuptools import Extension, setup


def compiled_twins() -> list[Extension]:
    sources = sorted(Path("src").glob("rocketpipe/**/_hot.pyx"))
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
    for twin in twins:
        twin.extra_compile_args = ["-O3"]
        # A failed build is then a warning, and the module stays out. Set here and not above:
        # cythonize makes extensions of its own, and forgets this on the way.
        twin.optional = True
    return twins


setup(ext_modules=compiled_twins())
