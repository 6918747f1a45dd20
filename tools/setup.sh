# Sourced by the other scripts: `setup EXTRA` installs into .venv the versions of constraints.txt, unless .venv is newer
# than that and pyproject.toml.
setup() {
  local extra=$1 python=${PYTHON:-python3} mark
  mark=.venv/.installed$extra
  if ! is_installed ".venv/.installed[dev]" && ! is_installed "$mark"; then
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
      echo "error: Python 3.11 or newer is needed; set PYTHON to one (found $("$python" --version 2>&1))" >&2
      return 1
    }
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    echo "installing into .venv (once)" >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-binary rollup-node \
      --constraint constraints.txt --editable ".$extra"
    touch "$mark"
  fi
}

# Whether the installation that this mark stands for is newer than what it was made from.
is_installed() {
  [ -e "$1" ] && [ ! pyproject.toml -nt "$1" ] && [ ! constraints.txt -nt "$1" ]
}
