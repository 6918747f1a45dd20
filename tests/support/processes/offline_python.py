"""A `python3` whose `-m venv FOLDER` makes an environment without a pip of its own, which takes long, and offline.

What pip would download are the packages of the tests, behind those of the environment."""

import site
import sys
from pathlib import Path

_TEXT = """#!/bin/sh
{python} -m venv --without-pip "$3"
printf '#!/bin/sh\\nexec {python} -m pip --python %s "$@"\\n' "$3/bin/python" > "$3/bin/pip"
chmod +x "$3/bin/pip"
echo {packages} > "$(echo "$3"/lib/python3*/site-packages)/dependencies.pth"
"""


def write_offline_python(path: Path) -> Path:
    """Write the program; its path."""
    path.write_text(_TEXT.format(python=sys.executable, packages=site.getsitepackages()[0]))
    path.chmod(0o755)
    return path
