# Sourced by the other scripts: `setup EXTRA` installs into .venv unless it is newer than pyproject.toml.
setup() {
  local extra=$1 python=${PYTHON:-python3} mark
  mark=.venv/.installed$extra
  if [ ! -e .venv/.installed"[dev]" ] || [ pyproject.toml -nt .venv/.installed"[dev]" ]; then
    if [ ! -e "$mark" ] || [ pyproject.toml -nt "$mark" ]; then
      "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "error: Python 3.11 or newer is needed; set PYTHON to one (found $("$python" --version 2>&1))" >&2
        return 1
      }
      [ -x .venv/bin/python ] || "$python" -m venv .venv
      echo "installing into .venv (once)" >&2
      .venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-binary rollup-node \
        --editable ".$extra"
      touch "$mark"
    fi
  fi
}
