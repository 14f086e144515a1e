#!/usr/bin/env bash
# Real verbs without a NIC: boots Debian's kernel under qemu (software emulation, no KVM needed)
# with soft-RoCE devices on the two ends of a veth, and runs tests/vm/guest.sh there.
# usage: run.sh BUILD_FOLDER [CACHE_FOLDER]      exit 77: cannot run here, with the reason
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
cache=${2:-${XDG_CACHE_HOME:-$HOME/.cache}/slowrank-vm}
limit_s=${SLOWRANK_VM_TIMEOUT:-840}

skip() {
	echo "skipped: $*"
	exit 77
}
[[ $(uname -m) == x86_64 ]] || skip "the VM is x86-64"
((EUID == 0)) || skip "debootstrap needs root"
for program in qemu-system-x86_64 debootstrap cpio modprobe; do
	command -v "$program" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null ||
		skip "$program is missing (scripts/install_dependencies.sh vm)"
done
PATH=$PATH:/usr/sbin:/sbin
mkdir -p "$cache"
"$here/make_root.sh" "$cache" >"$cache/make_root.log" 2>&1 ||
	skip "the VM's files could not be made: $(tail -1 "$cache/make_root.log")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
release=$(basename "$cache"/kernel/lib/modules/*)
mkdir -p "$work/add/slowrank" "$work/add/lib/modules/$release"
# Only the modules that are loaded, with what they need.
depmod -b "$cache/kernel" "$release"
for module in rdma_rxe veth sch_netem sch_tbf ib_uverbs rdma_ucm crc32_generic bridge; do
	modprobe -d "$cache/kernel" -S "$release" --show-depends "$module"
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u >"$work/modules"
while read -r module; do
	name=${module#*"/lib/modules/"}
	install -D -m 644 "$module" "$work/add/usr/lib/modules/$name"
done <"$work/modules"
rm -rf "$work/add/lib"
cp "$cache/kernel/lib/modules/$release"/modules.{builtin,order} "$work/add/usr/lib/modules/$release/" 2>/dev/null || true
depmod -b "$work/add/usr" "$release" 2>/dev/null || depmod -b "$work/add" -m /usr/lib/modules "$release" 2>/dev/null || true
install -m 755 "$here/init" "$work/add/init"
# What the guest reads. SLOWRANK_VM_PARTS: all, or some of process, loss, uprobes, mpi, doctor;
# limit, verdicts: only if named. _RANK, _BYTES, _HEALTHY, _FAULTY: of the MPI jobs (guest.sh).
for name in "${!SLOWRANK_VM_@}"; do
	printf '%s=%q\n' "$name" "${!name}"
done >"$work/add/slowrank/settings"
install -m 755 "$here/guest.sh" "$work/add/slowrank/test.sh"
for file in slowrank libslowrank_{verbs,inject}.so workload_mpi tests/verbs_dump; do
	[[ ! -e $build/$file ]] || install -m 755 "$build/$file" "$work/add/slowrank/"
done

# For looking into it: SLOWRANK_VM_KEEP is a file that gets a tar of the jobs' records and reports;
# SLOWRANK_VM_ADD is a folder to add; its guest.sh, if any, runs instead.
[[ -z ${SLOWRANK_VM_ADD:-} ]] || cp -r "$SLOWRANK_VM_ADD"/. "$work/add/slowrank/"
[[ ! -e $work/add/slowrank/guest.sh ]] || mv "$work/add/slowrank/guest.sh" "$work/add/slowrank/test.sh"

# Two archives one after the other are one initramfs; the first is kept.
[[ -e $cache/root.cpio ]] ||
	(cd "$cache/root" && find . -xdev -print0 | cpio --null -o -H newc --quiet >"$cache/root.cpio.new" &&
		mv "$cache/root.cpio.new" "$cache/root.cpio")
(cd "$work/add" && find . -print0 | cpio --null -o -H newc --quiet >"$work/add.cpio")
cat "$cache/root.cpio" "$work/add.cpio" >"$work/initramfs"

start=$(date +%s)
timeout "$limit_s" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 3000 -nographic -no-reboot \
	-nic none -monitor none -serial stdio -serial "file:${SLOWRANK_VM_KEEP:-/dev/null}" \
	-kernel "$cache"/kernel/boot/vmlinuz-"$release" -initrd "$work/initramfs" \
	-append "console=ttyS0 quiet panic=-1 rdinit=/init mitigations=off" </dev/null | stdbuf -o0 tr -d '\r' |
	tee "$work/console"
echo "vm: $(($(date +%s) - start)) s"
grep -q '^vm: status 0$' "$work/console"
