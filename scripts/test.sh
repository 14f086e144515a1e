#!/usr/bin/env bash
# Installs what the tests need, builds with warnings as errors, runs every test through ctest:
# the main build, then the sanitizer builds (address+undefined, thread) and the fuzz targets.
# usage: scripts/test.sh [ctest option...]       e.g. scripts/test.sh -R wire
set -euo pipefail
export LC_ALL=C.UTF-8 # tools of the build and the tests are read
umask 022 # tests run as several users
cd "$(dirname "$0")/.."

scripts/install_dependencies.sh build demo test

# Privileged tests need root; everything runs under one user, so that build files stay readable.
as_root=()
if [[ $EUID -ne 0 ]] && command -v sudo >/dev/null; then
	as_root=(sudo -E)
	"${as_root[@]}" true || { # asks once, before several tests at once would
		echo "test: without root, what needs it is skipped" >&2
		as_root=()
	}
fi
jobs=$(nproc)
at_once=$((2 * jobs)) # tests: many wait more than they compute

build() { # preset directory "target..."
	local preset=$1 directory=$2 targets=$3
	cmake --preset "$preset" >"$directory.configure.log" 2>&1 || {
		cat "$directory.configure.log" >&2
		return 1
	}
	rm -f "$directory.configure.log"
	# shellcheck disable=SC2086
	ninja -C "$directory" -j"$jobs" --quiet $targets
}

status=0
run_tests() { # directory ctest-option...
	local directory=$1
	shift
	"${as_root[@]}" ctest --test-dir "$directory" --output-on-failure "$@" || status=1
}

echo "== build"
build strict build all
# The VM emulates a processor, and hardly cares for time: it has what the builds and the unit tests leave.
vm_log=$(mktemp)
build_log=$(mktemp)
nice -n 10 "${as_root[@]}" ctest --test-dir build --output-on-failure -L vm "$@" >"$vm_log" 2>&1 &
vm=$!
threads_log=$(mktemp)
address_log=$(mktemp)
trap 'rm -f "$vm_log" "$build_log" "$threads_log" "$address_log"' EXIT
echo "== sanitizer and fuzz builds, beside the tests whose jobs sleep for the most part"
other_builds() {
	build address build-address unit_tests && build thread build-thread threaded_tests && build fuzz build-fuzz fuzz_tests
}
# They have what the tests leave, and share that with the VM.
(renice -n 10 -p "$BASHPID" >/dev/null; other_builds) >"$build_log" 2>&1 &
builds=$!
# Whole jobs and the kernel side are measured against the machine's own counters: on a machine that
# others load at that moment, a test gets a second chance.
again=(--repeat until-pass:2)
run_tests build -L light -j"$((jobs + 1))" "${again[@]}" "$@"
wait "$builds" || {
	cat "$build_log" >&2
	exit 1
}

# Tests of threads wait more than they compute: they share the machine with those that compute.
(
	status=0
	run_tests build-thread -L threads -j"$jobs" "${again[@]}"
	run_tests build-fuzz -L fuzz -j"$jobs"
	exit "$status"
) >"$threads_log" 2>&1 &
threads=$!
echo "== address and undefined behaviour sanitizers: unit tests"
run_tests build-address -L unit -LE long_sanitized -j"$at_once" "${again[@]}" >"$address_log" 2>&1
cat "$address_log"
# The second chance is for what a loaded machine does, never for what a sanitizer found.
if grep -qE 'Sanitizer:|runtime error:' "$address_log"; then
	status=1
fi
echo "== thread sanitizer: the tests of what has threads; fuzz targets (bounded)"
wait "$threads" || status=1
cat "$threads_log"
if grep -qE 'Sanitizer:|runtime error:' "$threads_log"; then
	status=1
fi
echo "== the main build: unit tests and expected reports"
run_tests build -L 'unit|golden' -j"$at_once" "${again[@]}" "$@"
wait "$vm" || status=1
cat "$vm_log"
echo "== whole jobs and the kernel side, one at a time"
run_tests build -LE 'unit|golden|light|vm|long' "${again[@]}" "$@"
exit $status
