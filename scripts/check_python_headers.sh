#!/usr/bin/env bash
# probe/stacks/python_layout.c against the headers of CPython releases: fails, with the field's name, where an offset
# differs.
# usage: check_python_headers.sh FOLDER...   each with a Python.h (python3-config --includes)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
(($#)) || { sed -n '4s/^# //p' "$0" >&2; exit 2; }

program=$(mktemp)
trap 'rm -f "$program"' EXIT
status=0
for folder in "$@"; do
	if [[ ! -f $folder/internal/pycore_runtime.h ]]; then
		echo "$folder: no internal/pycore_runtime.h" >&2
		status=1
	elif ! ${CC:-cc} -std=gnu17 -w -D_GNU_SOURCE -I "$root" -isystem "$folder" -isystem "$folder/internal" -idirafter "$folder/.." -o "$program" \
		"$root/tests/unit/stacks/python_headers.c" "$root/probe/stacks/python_layout.c" || ! "$program"; then
		status=1
	fi
done
exit $status
