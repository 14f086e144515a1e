#!/usr/bin/env bash
# probe/inject/nccl_abi.h against the profiler headers of NCCL releases: fails, with the field's
# name, where a size, an offset or a value differs.
# usage: check_nccl_headers.sh FOLDER...   each a plugins/profiler/example/nccl (before 2.29.7:
#        ext-profiler/example/nccl) of NCCL's sources
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
(($#)) || { sed -n '4,5s/^# //p' "$0" >&2; exit 2; }

status=0
for folder in "$@"; do
	version=0
	for header in "$folder"/profiler_v*.h; do
		number=${header##*profiler_v}
		number=${number%.h}
		[[ $number =~ ^[0-9]+$ ]] && ((number > version)) && version=$number
	done
	if ((version == 0)); then
		echo "$folder: no profiler_v*.h" >&2
		status=1
	elif ${CC:-cc} -std=gnu17 -fsyntax-only -DHEADERS_VERSION="$version" -I "$root" -isystem "$folder" \
		"$root/tests/unit/inject/nccl_headers.c"; then
		echo "$folder: versions 1 to $version: $( ((version < 2)) && echo "no table that is served" || echo "the same")"
	else
		status=1
	fi
done
exit $status
