#!/usr/bin/env bash
# Builds the virtual environment given as $1 (default .venv) with the pinned versions of constraints.txt.
# Without an NVIDIA GPU it asks pip for torch's CPU wheel first, so that no CUDA package is downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${1:-.venv}
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "dab needs Python 3.11 or newer, and $python is $("$python" --version 2>&1). Set PYTHON=/path/to/python3.11." >&2
    exit 1
}
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

torch=$(sed -n 's/^torch==//p' constraints.txt)
has_torch() { "$venv/bin/python" -c "import importlib.metadata as m, sys; sys.exit(m.version('torch').split('+')[0] != '$torch')" 2>/dev/null; }
if ! command -v nvidia-smi >/dev/null && ! has_torch; then
    echo "No GPU found: looking for the CPU build of torch $torch."
    pip install -q "torch==$torch+cpu" -c <(grep -v '^torch' constraints.txt) 2>/dev/null || cat >&2 <<MSG
pip sees no CPU wheel of torch $torch here, so the ordinary build is installed; it works on a CPU but is several GB.
To avoid that, point PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS at PyTorch's CPU wheels (pytorch.org, "Get started") first.
MSG
fi
echo "Installing dab and its pinned dependencies into $venv (one to three minutes)."
pip install -q -e '.[suite,dev]' -c constraints.txt
