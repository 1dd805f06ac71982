#!/bin/sh
# tests/support/same_symbols.sh LIBRARY ARCHIVE - global names that both define
#
# Exit 0 none, 1 with the names, 2 when a file has no symbols to compare.
set -eu
names() { # nm's options, file
    nm --defined-only "$@" 2>/dev/null | awk '$2 ~ /^[TDBR]$/ { print $3 }' | sort -u
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
names -D "$1" >"$folder/library"
names "$2" >"$folder/archive"
if [ ! -s "$folder/library" ] || [ ! -s "$folder/archive" ]; then
    echo "no symbols in $1 or $2"
    exit 2
fi
! comm -12 "$folder/library" "$folder/archive" | grep .
