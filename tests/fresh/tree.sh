# shellcheck shell=bash
# A bare Debian 12 and in it a clone of this repository's HEAD, in /srv/slowrank. Sourced, with `set -eu`:
#
#   tree_enter "$@"                   first of all: the script starts again in a mount namespace of its own
#   tree_make                         makes $tree; when the script ends, however it ends, it is removed
#   tree_add_user NAME                adds an ordinary user who may use sudo, and owns the clone
#   tree_run USER COMMAND [ARG...]    runs a command in the clone
#
# Mirror, keyring, proxies and certificates are those of this machine's apt. The bare tree is kept as an archive, and
# the packages that were installed in it as well: in ${XDG_CACHE_HOME:-/var/cache}/slowrank/fresh.
# Where there can be no such tree, the script ends with 77 and says why.
tree_release=bookworm
tree_days=7 # the archive and the packages beside it are made anew after that
PATH=$PATH:/usr/sbin:/sbin

tree_say() { printf 'fresh, %s s: %s\n' "$SECONDS" "$*"; }

tree_skip() {
	echo "skipped: $*"
	exit 77
}

# The mounts of the tree are in this namespace only: they are gone with it, even when the script is killed.
tree_enter() {
	local here
	here=$(readlink /proc/self/ns/mnt)
	[[ ${SLOWRANK_TREE_OUTSIDE:-$here} == "$here" ]] || return 0
	((EUID == 0)) || tree_skip "a bare Debian needs root"
	unshare --mount true 2>/dev/null || tree_skip "this machine allows no mount namespace"
	SLOWRANK_TREE_OUTSIDE=$here exec unshare --mount --propagation private "$0" "$@"
}

tree_repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)

# "URI SUITE FILE" of each of Debian's own repositories of the release; FILE is where apt has it from.
tree_repositories() {
	# shellcheck disable=SC2016 # apt's variables
	apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(SOURCESENTRY)' \
		'Created-By: Packages' 'Origin: Debian' 'Component: main' |
		awk -v release="$tree_release" '$2 ~ "^" release "(-updates|-security)?$" { sub(/:[0-9]*$/, "", $3); print }' |
		sort -u
}

# Sets what of this machine's apt the tree gets: tree_sources (URI KEYRING SUITE), tree_mirror, tree_keyring.
tree_read_apt() {
	local uri suite file keyring found
	command -v apt-get >/dev/null || tree_skip "this machine has no apt to take a mirror from"
	found=$(tree_repositories)
	[[ -n $found ]] || {
		apt-get update -qq || tree_skip "apt cannot be updated here"
		found=$(tree_repositories)
	}
	tree_sources=() tree_mirror=
	while read -r uri suite file; do
		[[ -n $uri ]] || break # none at all
		keyring=$(sed -nE 's/.*signed-by[=:] *([^] ]+).*/\1/Ip' "$file" | head -1)
		[[ $keyring == /* ]] || keyring=/usr/share/keyrings/debian-archive-keyring.gpg
		tree_sources+=("$uri $keyring $suite")
		[[ $suite != "$tree_release" ]] || tree_mirror=${uri%/} tree_keyring=$keyring
	done <<<"$found"
	[[ -n $tree_mirror ]] || tree_skip "no mirror of Debian $tree_release in this machine's apt sources"
	[[ -r $tree_keyring ]] || tree_skip "no keyring $tree_keyring (debian-archive-keyring)"
	eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
	export http_proxy=${http_proxy:-} https_proxy=${https_proxy:-}
}

# A file of this machine, to the same place in the tree.
tree_copy() { install -D -m "$(stat -Lc %a "$1")" "$1" "$tree$1"; }

# The tree's apt is told where to get things as this machine's is.
tree_configure() {
	local line uri keyring suite file
	cp -L /etc/resolv.conf /etc/hosts "$tree/etc/"
	for line in "${tree_sources[@]}"; do
		read -r uri keyring suite <<<"$line"
		echo "deb [signed-by=$keyring] $uri $suite main"
		tree_copy "$keyring"
	done >"$tree/etc/apt/sources.list"
	{
		apt-config dump | grep -E '^Acquire::(https?|Check-|Retries|ForceIPv)' || :
		[[ -z $http_proxy ]] || echo "Acquire::http::Proxy \"$http_proxy\";"
		[[ -z $https_proxy ]] || echo "Acquire::https::Proxy \"$https_proxy\";"
	} >"$tree/etc/apt/apt.conf.d/90machine"
	while read -r file; do
		[[ ! -f $file ]] || tree_copy "$file"
	done < <(
		grep -oE '"/[^"]+"' "$tree/etc/apt/apt.conf.d/90machine" | tr -d '"'
		grep -q https: "$tree/etc/apt/sources.list" && echo /etc/ssl/certs/ca-certificates.crt
	)
}

# Ends what still runs in a tree, whichever namespace it is in.
tree_end_processes() {
	local process found tries
	for ((tries = 0; tries < 100; tries++)); do
		found=0
		for process in /proc/[0-9]*; do
			if [[ $process/root -ef $1 ]]; then
				kill -KILL "${process#/proc/}" 2>/dev/null || :
				found=1
			fi
		done
		((found)) || return 0
		sleep 0.1
	done
	tree_say "processes in $1 do not end"
}

# Removes a tree, unless something is mounted below it.
tree_remove() {
	local point
	while read -r _ _ _ _ point _; do
		printf -v point %b "$point" # \040 is a space
		if [[ $point == "$1" || $point == "$1"/* ]]; then
			echo "fresh: $1 is left as it is: something is mounted on $point" >&2
			return 1
		fi
	done </proc/self/mountinfo
	rm -rf --one-file-system -- "$1"
}

# What killed runs have left: trees that nobody holds locked.
tree_remove_left() {
	local left held
	for left in "$tree_cache"/tree.*; do
		[[ -d $left ]] || continue
		exec {held}<"$left"
		if flock --nonblock "$held"; then
			tree_say "removing what a killed run has left: $left"
			tree_end_processes "$left"
			tree_remove "$left" || :
		fi
		exec {held}<&-
	done
}

tree_end() {
	local status=$? group
	trap '' INT TERM HUP
	set +e
	tree_end_processes "$tree" 2>/dev/null # where bash tells of each job that was killed
	# Lazy: a mount that is still in use is nevertheless out of the tree.
	umount --recursive --lazy "$tree" 2>/dev/null
	ln "$tree"/var/cache/apt/archives/*.deb "$tree_cache/debs/" 2>/dev/null
	tree_remove "$tree" || status=1
	for group in /sys/fs/cgroup/{,*/}slowrank-fault-*; do # of ranks that were ended
		[[ ! -d $group || -d /proc/${group##*-} ]] || rmdir "$group"
	done
	exit "$status"
}

# Fills $tree with Debian's minimum: from the archive, or from the mirror, and then makes the archive.
tree_fill() {
	local archive
	archive=$tree_cache/$tree_release-$(dpkg --print-architecture).tar
	if [[ -n $(find "$archive" -mtime "-$tree_days" 2>/dev/null) ]]; then
		tree_say "unpacking a bare Debian 12 ($archive)"
		tar -C "$tree" --numeric-owner -xpf "$archive"
		return
	fi
	tree_say "making a bare Debian 12 from $tree_mirror"
	rm -rf "$tree_cache/debs"
	mkdir "$tree_cache/debs"
	debootstrap --variant=minbase --keyring="$tree_keyring" "$tree_release" "$tree" "$tree_mirror" \
		>"$tree_cache/debootstrap.log" 2>&1 || tree_skip "debootstrap: $(tail -1 "$tree_cache/debootstrap.log")"
	rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/*
	tar -C "$tree" --numeric-owner -cf "$archive.new" .
	mv "$archive.new" "$archive"
}

tree_make() {
	local lock
	command -v debootstrap >/dev/null || "$tree_repository/scripts/install_dependencies.sh" fresh ||
		tree_skip "debootstrap is missing, and apt cannot install it"
	commit=$(git -C "$tree_repository" rev-parse --short HEAD) || tree_skip "not in git: there is no commit to test"
	tree_read_apt
	tree_cache=${XDG_CACHE_HOME:-/var/cache}/slowrank/fresh
	mkdir -p "$tree_cache/debs"
	tree_cache=$(readlink -f "$tree_cache")
	/usr/lib/apt/apt-helper download-file "$tree_mirror/dists/$tree_release/InRelease" "$tree_cache/InRelease.$$" \
		>/dev/null 2>&1 || tree_skip "the mirror does not answer: $tree_mirror"
	rm -f "$tree_cache/InRelease.$$"

	exec {lock}>"$tree_cache/lock"
	flock --nonblock "$lock" || {
		tree_say "waiting for another run that makes its tree"
		flock --wait 600 "$lock" || tree_skip "another run is at it for ten minutes"
	}
	tree_remove_left
	tree=$(mktemp -d "$tree_cache/tree.XXXXXX")
	trap tree_end EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	exec {tree_held}<"$tree"
	flock "$tree_held"
	chmod 755 "$tree"
	tree_fill
	ln "$tree_cache"/debs/*.deb "$tree/var/cache/apt/archives/" 2>/dev/null || :
	exec {lock}>&-

	tree_configure
	git clone --quiet --local --no-hardlinks "$tree_repository" "$tree/srv/slowrank"
	mount --bind "$tree" "$tree" # so that the root is a mount there, too
	mount -t proc proc "$tree/proc"
	mount --rbind /sys "$tree/sys"
	mount --rbind /dev "$tree/dev"
	mount -t tmpfs tmpfs "$tree/dev/shm"
	touch "$tree/etc/slowrank-bare" # scripts that remove packages look for it
	tree_say "commit $commit is in $tree/srv/slowrank"
	git -C "$tree_repository" diff --quiet HEAD || tree_say "uncommitted changes are not in it"
}

# In the background, so that signals are not kept waiting until the command ends.
tree_run() {
	local user=$1 command status=0
	shift
	printf -v command ' %q' "$@"
	env -i TERM="${TERM:-dumb}" PATH="$PATH" chroot "$tree" runuser -l "$user" -c "cd /srv/slowrank && exec$command" \
		</dev/null {tree_held}<&- &
	wait $! || status=$?
	((status != 77)) || status=1 # 77 is for where there can be no tree
	return "$status"
}

tree_add_user() {
	tree_run root sh -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends sudo >/dev/null &&
		useradd --create-home --shell /bin/bash $1 && chown -R $1: /srv/slowrank &&
		echo '$1 ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/$1"
}
