#!/usr/bin/env bash
# The libraries that go into programs of others can be loaded by an older C library: fails with the
# list of what needs a newer one than glibc 2.28; than 2.17 (RHEL 7) for the one of LD_PRELOAD, whose lack of a version ends
# every program.
# usage: old_libc.sh LIBRARY...
set -euo pipefail
export LC_ALL=C

is_newer() { # GLIBC_VERSION; what is no number (GLIBC_PRIVATE, GLIBC_ABI_...) has no age
	[[ $1 =~ ^GLIBC_([0-9.]+)$ ]] || return 0
	[[ $(printf '%s\n' "$newest" "${BASH_REMATCH[1]}" | sort -V | tail -1) != "$newest" ]]
}

status=0
for library in "$@"; do
	newest=2.28
	[[ $library != *_verbs.so ]] || newest=2.17
	needed=$(readelf -V --wide "$library" | sed -n 's/.* Name: \(GLIBC_[^ ]*\) .*/\1/p' | sort -u)
	symbols=$(readelf --dyn-syms --wide "$library")
	for version in $needed; do
		is_newer "$version" || continue
		status=1
		names=$(grep -oE "[^ ]+@+$version( |\$)" <<<"$symbols" | sed 's/@.*//' | sort -u | tr '\n' ' ' || true)
		echo "${library##*/} needs $version: ${names:-no symbol (an option of the linker?)}"
	done
done
exit $status
