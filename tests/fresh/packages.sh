#!/usr/bin/env bash
# Builds everything and runs the unit tests with each optional package missing in turn. It removes packages, so it
# runs on a bare Debian only: tests/fresh/run.sh tests/fresh/packages.sh
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
[[ -e /etc/slowrank-bare ]] || {
	echo "packages: this is no machine made by tests/fresh/run.sh" >&2
	exit 2
}

declare -A parts=(
	[nothing]=""
	[cmocka]="libcmocka-dev libcmocka0"
	[Open MPI]="libopenmpi-dev openmpi-bin openmpi-common libopenmpi3"
	[MPICH]="libmpich-dev mpich libmpich12"
	[both MPIs]="libopenmpi-dev openmpi-bin openmpi-common libopenmpi3 libmpich-dev mpich libmpich12"
	[libibverbs]="libibverbs-dev"
	[libclang-rt]="libclang-rt-14-dev"
	[Python 3]="python3 python3-minimal python3.11 python3.11-minimal"
)

# cmake forgets what it had found; what no target makes any more is removed.
build() { # preset directory target
	local preset=$1 directory=$2 target=$3
	cmake --fresh --preset "$preset" &&
		ninja -C "$directory" -t cleandead && ninja -C "$directory" --quiet "$target"
}

check() { # name
	build strict build all || return 1
	if [[ $1 != cmocka ]]; then
		ctest --test-dir build -L unit -j"$(nproc)" --output-on-failure || return 1
	fi
	if [[ $1 == libclang-rt ]]; then
		! build fuzz build-fuzz fuzz_tests 2>&1 | tee refused || return 1
		grep -q "needs libFuzzer: libclang-rt" refused
	else
		build fuzz build-fuzz fuzz_tests
	fi
}

scripts/install_dependencies.sh build demo test || exit 1
failed=()
for name in nothing cmocka "Open MPI" MPICH "both MPIs" libibverbs libclang-rt "Python 3"; do
	started=$SECONDS
	read -ra packages <<<"${parts[$name]}"
	# What others depend on goes alone.
	((!${#packages[@]})) || dpkg --purge --force-depends "${packages[@]}" >log 2>&1 || {
		cat log
		failed+=("$name (cannot be removed)")
		continue
	}
	result=good
	check "$name" >log 2>&1 || {
		cat log
		result=FAILED
		failed+=("$name")
	}
	echo "== without $name: $result, $((SECONDS - started)) s, $(grep -c 'Passed' log) unit tests"
	((!${#packages[@]})) || apt-get install -y -qq --no-install-recommends "${packages[@]}" >log 2>&1 || {
		cat log
		echo "without $name: packages cannot be put back" 
		exit 1
	}
done
((!${#failed[@]})) || {
	echo "failed without: $(printf '%s; ' "${failed[@]}")"
	exit 1
}
echo "${#parts[@]} builds, all good"
