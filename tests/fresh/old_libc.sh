#!/usr/bin/env bash
# The libraries that go into programs of others, in a container image of yesterday: makes a minimal
# tree of an older Debian (glibc 2.31 or 2.28) and loads and starts them there. As root, with
# debootstrap, from the mirror of Debian that this machine's apt uses.
# usage: tests/fresh/old_libc.sh BUILD_DIR       exits with 77, and says why, where it cannot be run
set -euo pipefail
export LC_ALL=C

build=$(readlink -f "${1:?usage: tests/fresh/old_libc.sh BUILD_DIR}")
libraries=(libslowrank_inject.so libslowrank_marker.so libslowrank_verbs.so)

skip() {
	echo "old_libc: skipped: $*" >&2
	exit 77
}

for library in "${libraries[@]}"; do
	[[ -e $build/$library ]] || {
		echo "old_libc: there is no $build/$library: build first" >&2
		exit 2
	}
done
((EUID == 0)) || skip "not root"
command -v debootstrap >/dev/null || skip "debootstrap is missing (scripts/install_dependencies.sh vm)"
unshare --mount true 2>/dev/null || skip "no right to make a mount namespace"

tree=$(mktemp -d "${TMPDIR:-/tmp}/slowrank-old-libc-XXXXXX")
clean_up() {
	if awk -v tree="$tree" 'index($5 "/", tree "/") == 1 { found = 1 } END { exit !found }' /proc/self/mountinfo; then
		echo "old_libc: $tree stays: something is mounted there" >&2
	else
		rm -rf --one-file-system "$tree"
	fi
}
trap clean_up EXIT

# Of apt's own lists: the mirror that has an older suite, and the key that it is signed with.
mirror="" suite=""
while read -r uri; do
	for candidate in bullseye buster; do
		if /usr/lib/apt/apt-helper download-file "$uri/dists/$candidate/Release" "$tree/release" >/dev/null 2>&1 &&
			grep -qx 'Label: Debian' "$tree/release"; then
			mirror=$uri suite=$candidate
			break 2
		fi
	done
done < <(apt-get --print-uris update 2>/dev/null | sed -n "s|^'\([^ ]*\)/dists/.*|\1|p" | sort -u)
rm -f "$tree"/release*
[[ -n $mirror ]] || skip "no mirror of apt's has bullseye or buster"
keyring=$(grep -lF "$mirror" /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
	xargs -r sed -nE 's/.*[Ss]igned-[Bb]y[:=] *(\/[^] ]+).*/\1/p' | head -1 || true)
keyring=${keyring:-/usr/share/keyrings/debian-archive-keyring.gpg}
[[ -r $keyring ]] || skip "there is no key of Debian's archive ($keyring)"

# Mounts of debootstrap's and ours are in namespaces of their own, and end with them.
unshare --mount --propagation private debootstrap --variant=minbase --keyring="$keyring" \
	"$suite" "$tree" "$mirror" >"$tree/debootstrap.log" 2>&1 || {
	tail -5 "$tree/debootstrap.log" >&2
	skip "debootstrap could not make $suite from apt's mirror"
}
for library in "${libraries[@]}"; do
	cp "$build/$library" "$tree/$library"
done

cat >"$tree/start.pl" <<'PERL'
# Opens each library with all of its functions bound at once (PERL_DL_NONLAZY), and starts what it has.
require DynaLoader;
my %start = ("libslowrank_inject.so" => "slowrank_inject_start",
	"libslowrank_marker.so" => "slowrank_step_begin", "libslowrank_verbs.so" => undef);
for my $name (sort keys %start) {
	my $library = DynaLoader::dl_load_file("/$name", 0) or die "$name: " . DynaLoader::dl_error() . "\n";
	next unless $start{$name};
	my $function = DynaLoader::dl_find_symbol($library, $start{$name}) or die "$name has no $start{$name}\n";
	DynaLoader::dl_install_xsub("main::start", $function);
	start();
}
select(undef, undef, undef, 0.2);
glob("/dev/shm/slowrank*.$$.*") or die "libslowrank_inject.so made no ring\n";
my @names = map { open(my $file, "<", $_) or die; scalar <$file> } glob("/proc/self/task/*/comm");
grep { $_ eq "slowrank\n" } @names or die "libslowrank_inject.so has no thread\n";
print "started\n";
PERL
cat >"$tree/try.sh" <<'TRY'
set -eu
ldd --version | head -1
for library in /libslowrank_*.so; do
	echo "$library"
	if ldd -r "$library" 2>&1 | grep -E 'not found|undefined|version'; then exit 1; fi
	said=$(LD_BIND_NOW=1 LD_PRELOAD=$library /bin/true 2>&1)
	if [ -n "$said" ]; then echo "$said"; exit 1; fi
done
PERL_DL_NONLAZY=1 perl /start.pl
TRY
unshare --mount --propagation private --fork --pid sh -c '
	mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/dev/shm" && exec chroot "$1" sh /try.sh' sh "$tree"
