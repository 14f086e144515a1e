#!/usr/bin/env bash
# Installs Debian packages: `build` (to build and run slowrank), `demo` (to run a real MPI job),
# `test` (all that the tests need), `bundle` (for scripts/bundle.sh), `vm` (for tests/vm), `fresh` (for tests/fresh),
# `deb` (to make the Debian package, and look at it), `arm64` (to build and test for arm64 on another machine: apt then
# knows that architecture as well), `image` (to build the container image), `torch` (a real torchrun, for scripts/long.sh).
# As root or with sudo. Installs nothing that is there already.
set -euo pipefail
export LC_ALL=C.UTF-8 # what apt says is read below

build=(build-essential cmake ninja-build pkg-config clang llvm bpftool libbpf-dev libelf-dev zlib1g-dev
	libjs-dygraphs libnng-dev libmsgpack-dev libssl-dev libzstd-dev libsqlite3-dev libmicrohttpd-dev libcurl4-openssl-dev)
demo=(openmpi-bin libopenmpi-dev python3)
test=(libcmocka-dev libibverbs-dev musl mpich libmpich-dev iproute2 hpcc examl libclang-rt-14-dev clang-format-14 util-linux procps jq
	slurmctld slurmd slurm-client munge prometheus prometheus-alertmanager curl python3-yaml)
vm=(qemu-system-x86 debootstrap cpio kmod)
bundle=(patchelf)
fresh=(debootstrap)
deb=(dpkg-dev file lintian)
arm64=(crossbuild-essential-arm64 qemu-user-static python3)
for package in "${build[@]}" libcmocka-dev libibverbs-dev; do
	[[ $package != *-dev ]] || arm64+=("$package:arm64")
done
image=(buildah)
torch=(python3-torch)

wanted=()
for group in "$@"; do
	case $group in
	build) wanted+=("${build[@]}") ;;
	demo) wanted+=("${demo[@]}") ;;
	test) wanted+=("${test[@]}") ;;
	vm) wanted+=("${vm[@]}") ;;
	bundle) wanted+=("${bundle[@]}") ;;
	fresh) wanted+=("${fresh[@]}") ;;
	deb) wanted+=("${deb[@]}") ;;
	arm64) wanted+=("${arm64[@]}") ;;
	image) wanted+=("${image[@]}") ;;
	torch) wanted+=("${torch[@]}") ;;
	*)
		echo "usage: $0 build|demo|test|vm|bundle|fresh|deb|arm64|image|torch..." >&2
		exit 2
		;;
	esac
done

missing=()
for package in "${wanted[@]}"; do
	dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if [[ $EUID -ne 0 ]]; then
	command -v sudo >/dev/null || {
		echo "install_dependencies: run as root, or install sudo; missing: ${missing[*]}" >&2
		exit 2
	}
	as_root=(sudo)
fi
echo "installing: ${missing[*]}"
# Another apt may be at work: that of a new machine's own updates, or this script started twice. apt waits for dpkg's
# lock alone, and gives up where the lists or the archives are locked: those it is asked for again.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
	local deadline=$((SECONDS + 900)) told=
	until "${as_root[@]}" env LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=900 "$@" >"$log" 2>&1; do
		if ! grep -qE 'Could not get lock|Unable to (lock|acquire)' "$log" || ((SECONDS > deadline)); then
			cat "$log" >&2
			return 1
		fi
		[[ -n $told ]] || echo "waiting for another package manager to end: $(grep -m 1 'Could not get lock' "$log")"
		told=1
		sleep 2
	done
}
[[ ${missing[*]} != *:arm64* ]] || "${as_root[@]}" dpkg --add-architecture arm64
# A repository of others that is gone, or whose key is old, is in nobody's way: the packages are Debian's.
apt update || echo "not all lists of packages are new; going on with what there is" >&2
apt install -y --no-install-recommends "${missing[@]}"
