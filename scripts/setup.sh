# Sourced by the other scripts: a .venv with the project and its test tools, made once, renewed when
# pyproject.toml or the constraints change.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

python=${PYTHON:-python3}
wanted=$(cat pyproject.toml scripts/constraints.txt | cksum)
if [ ! -x .venv/bin/python ] || [ "$(cat .venv/installed 2>/dev/null)" != "$wanted" ]; then
    echo "setting up .venv (the first time takes a few minutes: torch is large)" >&2
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
        echo "ddplaunch needs Python 3.10 or newer; PYTHON=/path/to/python3 chooses one" >&2
        exit 1
    }
    [ -x .venv/bin/python ] || "$python" -m venv .venv || exit 1
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        --constraint scripts/constraints.txt --editable '.[test]' || exit 1
    echo "$wanted" >.venv/installed
fi
# Where PYTHONDONTWRITEBYTECODE is set, every start would compile the package again.
.venv/bin/python -m compileall -q ddplaunch
