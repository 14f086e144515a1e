#!/usr/bin/env bash
# Makes a folder with slowrank and what it needs, for machines of another distribution:
#
#   scripts/bundle.sh OUT_DIR        BUILD=build is where the build is
#
# OUT_DIR/slowrank finds its libraries in OUT_DIR/lib by $ORIGIN, so the folder works from anywhere,
# and so does what slowrank starts as itself (/proc/self/exe). The C library stays the target's own:
# its version must not be older than `glibc` in OUT_DIR/needs.txt. For older ones, and for those
# without one, OUT_DIR/lib/own-libc holds this machine's, and OUT_DIR/slowrank-own-libc starts slowrank
# with it. The kernel takes the loader's path from the program, where only a fixed path can stand: it is
# a link in /run, named by the loader's content, that slowrank-own-libc makes. So that one needs root once.
# Bundles with the same loader share the link: root's starts lead it to their own, others take it as it is.
set -euo pipefail
export LC_ALL=C.UTF-8 # what ldd says is read below

limit_kib=$((64 * 1024))
out=${1:?usage: scripts/bundle.sh OUT_DIR}
root=$(dirname "$(dirname "$(readlink -f "$0")")")
build=$(readlink -f "${BUILD:-$root/build}")
command -v patchelf >/dev/null || {
	echo "bundle: patchelf is missing: scripts/install_dependencies.sh bundle" >&2
	exit 2
}
[[ -x $build/slowrank ]] || {
	echo "bundle: there is no $build/slowrank: build first, or set BUILD" >&2
	exit 2
}
if [[ -e $out && -n $(ls -A "$out") && ! -e $out/needs.txt ]]; then
	echo "bundle: $out holds other things" >&2
	exit 2
fi

# The C library's own parts: these belong together with the loader.
is_libc() {
	case $1 in
	ld-linux* | libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.* | linux-vdso*) return 0 ;;
	esac
	return 1
}

mkdir -p "$out"
out=$(readlink -f "$out")
rm -rf "${out:?}/lib" "$out"/slowrank* "$out"/libslowrank_*.so "$out/needs.txt"
mkdir -p "$out/lib/own-libc"

libraries=()
# The in-process libraries live where the build puts them; a build without them is bundled as it is.
for name in libslowrank_inject.so libslowrank_marker.so libslowrank_verbs.so; do
	found=$(find "$build" -maxdepth 4 -name "$name" -type f -print -quit)
	[[ -n $found ]] || {
		echo "bundle: this build has no $name" >&2
		continue
	}
	cp "$found" "$out/$name"
	libraries+=("$name")
done
cp "$build/slowrank" "$out/slowrank"

copy_needed() { # of one file
	local name arrow path rest
	while read -r name arrow path rest; do
		if [[ $name == /* ]]; then # the loader: no arrow
			path=$name
			name=${name##*/}
		fi
		if [[ $path == not ]]; then
			echo "bundle: $1 needs $name, which is not here" >&2
			exit 1
		fi
		[[ $path == /* ]] || continue
		if is_libc "$name"; then
			cp -Lu "$path" "$out/lib/own-libc/$name"
		else
			cp -Lu "$path" "$out/lib/$name"
		fi
	done < <(ldd "$1")
}
for name in slowrank "${libraries[@]}"; do
	copy_needed "$out/$name"
done

# Old-style rpath, not runpath: it also holds for the libraries that the libraries need.
for file in "$out"/lib/*.so*; do
	patchelf --force-rpath --set-rpath '$ORIGIN' "$file"
done
cp "$out/slowrank" "$out/slowrank-own-libc.bin"
patchelf --force-rpath --set-rpath '$ORIGIN/lib' "$out/slowrank"
patchelf --force-rpath --set-rpath '$ORIGIN/lib:$ORIGIN/lib/own-libc' "$out/slowrank-own-libc.bin"
for name in "${libraries[@]}"; do
	# In the training process only the process's own C library will do.
	needed=$(patchelf --print-needed "$out/$name")
	for library in $needed; do
		is_libc "$library" || {
			patchelf --force-rpath --set-rpath '$ORIGIN/lib' "$out/$name"
			break
		}
	done
done

# slowrank looks for them beside itself.
for name in "${libraries[@]}"; do cp "$out/$name" "$out/lib/$name"; done

mv "$out/slowrank-own-libc.bin" "$out/lib/slowrank-own-libc.bin"
patchelf --force-rpath --set-rpath '$ORIGIN:$ORIGIN/own-libc' "$out/lib/slowrank-own-libc.bin"
interpreter=$(patchelf --print-interpreter "$out/slowrank")
loader=${interpreter##*/}
link=/run/slowrank-loader-$(sha256sum "$out/lib/own-libc/$loader" | cut -c1-16)
cat >"$out/slowrank-own-libc" <<'SCRIPT'
#!/bin/sh
# Starts slowrank with the C library that was bundled beside it. As root where the link does not lead to a
# loader yet: only root can write to /run, so that nobody else chooses the loader.
set -eu
here=$(dirname "$(readlink -f "$0")")
own=$here/lib/own-libc/LOADER
if ! [ -x LINK ] || { [ "$(id -u)" = 0 ] && [ "$(readlink LINK)" != "$own" ]; }; then
	ln -s "$own" "LINK.$$"
	mv -f "LINK.$$" LINK # at once: another bundle may be starting
fi
exec "$here/lib/slowrank-own-libc.bin" "$@"
SCRIPT
sed -i "s:LOADER:$loader:g; s:LINK:$link:g" "$out/slowrank-own-libc"
chmod +x "$out/slowrank-own-libc"
patchelf --set-interpreter "$link" "$out/lib/slowrank-own-libc.bin"

newest=$(for file in "$out"/slowrank "$out"/lib/*.so* "$out"/*.so; do
	readelf --version-info "$file" 2>/dev/null || :
done | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -1)
{
	echo "glibc ${newest#GLIBC_}"
	echo "machine $(uname -m)"
	"$out/slowrank" --version 2>/dev/null || :
} >"$out/needs.txt"

# As it will be used: from another folder, without this machine's libraries in the way.
check() {
	local program=$1
	if ! (cd / && env -i PATH="$PATH" "$program" --version >/dev/null); then
		echo "bundle: $program does not start" >&2
		exit 1
	fi
}
check "$out/slowrank"
if [[ $EUID -eq 0 ]]; then
	had_link=$(readlink "$link" || :)
	check "$out/slowrank-own-libc"
	if [[ -n $had_link ]]; then ln -sfn "$had_link" "$link"; else rm -f "$link"; fi
fi
outside=$(ldd "$out/slowrank" | OWN="=> $out/" awk '$3 ~ "^/" && !index($0, ENVIRON["OWN"]) { print $1 }')
for name in $outside; do
	is_libc "$name" || {
		echo "bundle: $name is still taken from this machine" >&2
		exit 1
	}
done
chmod -R u+w,go-w,a+rX "$out" # for all users, whatever the umask is
size_kib=$(du -sk "$out" | cut -f1)
if ((size_kib > limit_kib)); then
	echo "bundle: $size_kib KiB are more than $limit_kib" >&2
	exit 1
fi
echo "$out: $size_kib KiB, needs $(head -1 "$out/needs.txt")"
