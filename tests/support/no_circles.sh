#!/bin/sh
# tests/support/no_circles.sh TABLES OBJECT... - object files that need each other in a circle
#
# TABLES are names, separated by spaces, whose users are not counted: a table of functions names the
# files that serve it, and they may use what looks up the table.
# Exit 0 none, 1 with the files of each circle and the names that they need, 2 when the files have
# no symbols.
set -eu
tables=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
nm -A "$@" >"$folder/names" 2>/dev/null || {
    echo "no symbols in $*"
    exit 2
}
awk -v tables="$tables" '
BEGIN {
    count = split(tables, list, " ")
    for (i = 1; i <= count; i++) skip[list[i]] = 1
}
{
    file = $1
    sub(/:[0-9a-f]*$/, "", file)
    name = $NF
}
$(NF - 1) ~ /^[TDBR]$/ { home[name] = file }
$(NF - 1) == "U" { users[name] = users[name] " " file }
END {
    for (name in users) {
        if (!(name in home) || name in skip) continue
        count = split(users[name], list, " ")
        for (i = 1; i <= count; i++) {
            if (list[i] != home[name]) print list[i], home[name], name
        }
    }
}' "$folder/names" >"$folder/needs"
awk '{ print $1, $2 }' "$folder/needs" | sort -u >"$folder/edges"
tsort "$folder/edges" >/dev/null 2>"$folder/loops" || true
[ ! -s "$folder/loops" ] || {
    sed "s,^tsort: ,,; s,$folder/edges: input contains a loop:,a circle:," "$folder/loops"
    awk 'NR == FNR { sub(/^tsort: /, ""); within[$0] = 1; next }
        $1 in within && $2 in within { print $1 " needs " $3 " of " $2 }' \
        "$folder/loops" "$folder/needs" | sort
    exit 1
}
