#!/usr/bin/env bash
# Builds for arm64 on a bare Debian 12 of another architecture, and makes the package. Runs the unit tests there, and
# judges the recorded jobs of tests/corpus, by qemu-user, which translates programs for this machine's kernel.
# usage: tests/fresh/arm64.sh       exit 77: cannot run here, with the reason
set -euo pipefail
. "$(dirname "$0")/tree.sh"
tree_enter "$@"
[[ $(dpkg --print-architecture) != arm64 ]] || tree_skip "this machine is arm64: scripts/test.sh is its test"
unshare --user --map-root-user --mount mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc 2>/dev/null ||
	tree_skip "no binfmt_misc in a user namespace of one's own (Linux 6.7)"
tree_make

cat >"$tree/srv/build.sh" <<'BUILD'
set -eu
scripts/install_dependencies.sh build arm64 deb
cmake -S . -B build-arm64 -G Ninja -DSLOWRANK_WERROR=ON --toolchain scripts/arm64.cmake >log || { cat log; exit 1; }
ninja -C build-arm64 --quiet
BUILD
tree_run root sh /srv/build.sh
tree_say "built for arm64"

# The tests' own programs are started by the kernel, and translated, too: by a binfmt_misc that this namespace has alone.
cat >"$tree/srv/test.sh" <<'TEST'
set -eu
cat /usr/lib/binfmt.d/qemu-aarch64.conf >/proc/sys/fs/binfmt_misc/register
sed 's/^/not run: /' /srv/not-here
names() { cut -d: -f1 "$@" | paste -sd '|'; }
ctest --test-dir build-arm64 -L unit -LE long_sanitized -j"$(nproc)" --output-on-failure \
	-E "^($(names /srv/not-here /srv/helped))$" || failed=1
aarch64-linux-gnu-gcc -D_GNU_SOURCE -O2 -shared -fPIC -o build-arm64/qemu_user.so tests/fresh/qemu_user.c
QEMU_SET_ENV=LD_PRELOAD=$PWD/build-arm64/qemu_user.so \
	ctest --test-dir build-arm64 -j"$(nproc)" --output-on-failure -R "^($(names /srv/helped))$" || failed=1
ctest --test-dir build-arm64 -R '^corpus.replay$' --output-on-failure || failed=1
exit "${failed:-0}"
TEST
# With qemu_user.c, which gives them what qemu-user lacks: openat2(), and the kernel's own /proc/PID/stat.
cat >"$tree/srv/helped" <<'HELPED'
unit.attach.test_load_file
unit.inject.test_deep_look
unit.inject.test_plugin
unit.inject.test_timed_calls
unit.inject.test_tracker
unit.probe.test_device_looks
unit.ring.test_ring
HELPED
cat >"$tree/srv/not-here" <<'NOT_HERE'
unit.sources.test_speed_samplers: qemu-user has no perf_event_open()
unit.attach.test_confined: qemu-user has no seccomp()
unit.attach.test_target_root: qemu-user has no openat2()
unit.attach.test_library: /proc/self/exe is qemu
unit.attach.test_communicator_memory: the kernel's maps of a translated process are those of qemu
unit.probe.test_doctor: qemu-user has no bpf()
NOT_HERE
mkfifo "$tree/srv/mapped"
unshare --user --mount sh -c '
	read -r _ <"$0/srv/mapped"
	mount -t binfmt_misc binfmt_misc "$0/proc/sys/fs/binfmt_misc" &&
		exec env -i TERM=dumb PATH="$PATH" chroot "$0" sh -c "cd /srv/slowrank && exec sh /srv/test.sh"' \
	"$tree" </dev/null {tree_held}<&- &
tests=$!
until [[ $(readlink "/proc/$tests/ns/user") != $(readlink /proc/self/ns/user) ]]; do sleep 0.1; done
for map in uid_map gid_map; do echo "0 0 4294967295" >"/proc/$tests/$map"; done # everybody is who he is outside
echo >"$tree/srv/mapped"
wait "$tests"

tree_run root sh -ec '
	cpack -G DEB --config build-arm64/CPackConfig.cmake -B /srv/package >log || { cat log; exit 1; }
	package=$(echo /srv/package/slowrank_*_arm64.deb)
	[ "$(dpkg-deb --field "$package" Architecture)" = arm64 ]
	dpkg-deb --fsys-tarfile "$package" | tar -xO ./usr/bin/slowrank | file - | grep "ARM aarch64"
	echo "${package##*/}"'
