#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What Debian 12 does not have (Open MPI 5, other Pythons): a minimal tree of another Debian, kept for later.
#
#   debian_tree.sh make NAME SUITE PACKAGE,...   makes the tree of that name where there is none, and prints where it is
#   debian_tree.sh run TREE CMD...               runs a command in it, with this machine's /run, /proc, /dev and this repository
#
# As root, with debootstrap, from the mirror of this machine's apt. Exits with 77, and says why, where it cannot be run.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
PATH=$PATH:/usr/sbin

skip() {
	echo "skipped: $*" >&2
	exit 77
}

make_tree() {
	local cache=${XDG_CACHE_HOME:-/var/cache}/slowrank/$1 suite=$2 packages=$3 new mirror
	((EUID == 0)) || skip "a tree of Debian's needs root"
	[[ ! -d $cache ]] || {
		echo "$cache"
		return
	}
	command -v debootstrap >/dev/null || skip "debootstrap is missing (scripts/install_dependencies.sh fresh)"
	# shellcheck disable=SC2016 # apt's variables
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
		'Codename: bookworm' 'Component: main' | head -1)
	[[ -n $mirror ]] || skip "no mirror of Debian's in this machine's apt sources"
	mkdir -p "$(dirname "$cache")"
	new=$(mktemp -d "$cache.XXXXXX")
	unshare --mount --propagation private debootstrap --variant=minbase --include="$packages" \
		"$suite" "$new" "$mirror" >"$new.log" 2>&1 || {
		rm -rf --one-file-system "$new"
		skip "debootstrap: $(tail -1 "$new.log")"
	}
	rm -f "$new.log" "$new"/var/cache/apt/archives/*.deb
	touch "$new/etc/hosts"
	chmod 755 "$new"
	mv -T "$new" "$cache" || rm -rf --one-file-system "$new"
	echo "$cache"
}

# The mounts are in a namespace of their own, and end with it.
run_in_tree() {
	local tree=$1 at
	shift
	if [[ -z ${SLOWRANK_IN_TREE:-} ]]; then
		SLOWRANK_IN_TREE=1 exec unshare --mount --propagation private "$0" run "$tree" "$@"
	fi
	unset SLOWRANK_IN_TREE
	mkdir -p "$tree$repository"
	mount --bind "$tree" "$tree" # so that the root is a mount there, too
	for at in /proc /sys /dev /run "$repository"; do
		mount --rbind "$at" "$tree$at"
	done
	exec chroot "$tree" "$@"
}

case ${1:-} in
make) make_tree "${2:?a name}" "${3:?a suite}" "${4:?packages}" ;;
run) shift && run_in_tree "$@" ;;
*)
	echo "usage: $0 make NAME SUITE PACKAGE,... | run TREE COMMAND..." >&2
	exit 2
	;;
esac
