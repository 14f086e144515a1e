#!/usr/bin/env bash
# Makes the Debian package of a build and has lintian look at it. With OUT_DIR the package is left there.
# usage: tests/packaging/test_deb.sh BUILD_DIR [OUT_DIR]      exit 77: cannot run here, with the reason
set -euo pipefail
export LC_ALL=C

build=$(readlink -f "${1:?usage: test_deb.sh BUILD_DIR [OUT_DIR]}")
for program in cpack dpkg-shlibdeps file; do
	command -v "$program" >/dev/null || {
		echo "skipped: $program is missing"
		exit 77
	}
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
	echo "deb: $*" >&2
	exit 1
}

cd "$folder" # where cpack looks for work files of an earlier one
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$folder" >log 2>&1 || {
	cat log >&2
	fail "cpack ends with an error"
}
package=$(echo "$folder"/slowrank_*.deb)

field() { dpkg-deb --field "$package" "$1"; }
[[ slowrank\ $(field Version) == "$("$build/slowrank" --version)-"* ]] || fail "version: $(field Version)"
[[ $(field Architecture) == "$(dpkg --print-architecture)" ]] || fail "architecture: $(field Architecture)"
for library in libbpf1 libc6 libelf1 libnng1 libsqlite3-0 libssl3 libzstd1; do
	grep -qE "(^|, )$library( |,|$)" <<<"$(field Depends)" || fail "does not depend on $library: $(field Depends)"
done

# Rights are for who installs it to give: docs/operations.md, Privileges.
dpkg-deb --extract "$package" root
odd=$(find root -perm /7022 ! -type l -printf '%M %P\n')
[[ -z $odd ]] || fail "modes: $odd"
dpkg-deb --control "$package" control
! grep -rE "setcap|chmod|chown|systemctl" control || fail "its scripts do more than ldconfig"
if command -v getcap >/dev/null; then
	[[ -z $(getcap -r root) ]] || fail "a file has capabilities"
fi

# Stripped, it still finds what it looks for in itself and beside itself.
found=$(root/usr/bin/slowrank run --quiet --sources device --record job.slr -- printenv NCCL_PROFILER_PLUGIN)
[[ $(readlink -f "$found") == "$folder/root/usr/lib/slowrank/libslowrank_inject.so" ]] || fail "the library of ranks: $found"
# The doctor tries its hooks at functions of the program itself.
tried() { "$1" doctor | grep -E '^[a-z]+ +hook (uprobe|process)' || :; }
[[ $(tried root/usr/bin/slowrank) == "$(tried "$build/slowrank")" ]] || fail "doctor: $(tried root/usr/bin/slowrank)"
command -v lintian >/dev/null || {
	echo "skipped: lintian is missing (scripts/install_dependencies.sh deb); the rest is good"
	exit 77
}
lintian --fail-on error,warning --allow-root "$package" || fail "lintian has something against it"
[[ -z ${2:-} ]] || cp "$package" "$2/"
echo "${package##*/}: $(du -k "$package" | cut -f1) KiB"
