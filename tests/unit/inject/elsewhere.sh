#!/usr/bin/env bash
# libslowrank_verbs.so in LD_PRELOAD, where programs have another root without it, or another C library: they run as without it,
# and nothing is printed. As root, or where an ordinary user may have a namespace.
# usage: elsewhere.sh LIBRARY
set -euo pipefail
export LC_ALL=C
library=$(readlink -f "${1:?usage: elsewhere.sh LIBRARY}")
machine() { od -An -tx1 -j18 -N2 "$(readlink -f "$1")"; } # e_machine of an ELF file
[[ $(machine "$library") == "$(machine /usr/bin/env)" ]] || {
	echo "skipped: the library is for another processor than this machine's programs"
	exit 77
}
folder=$(mktemp -d "${TMPDIR:-/tmp}/slowrank-elsewhere-XXXXXX")
trap 'rm -rf "$folder"' EXIT
# The loader takes blanks and colons as ends of names, which a build's folder may have.
mkdir "$folder/library"
for name in libslowrank_verbs.so libslowrank_nothing_32.so x86_64 haswell xeon_phi i686; do
	[[ ! -e ${library%/*}/$name ]] || cp -a "${library%/*}/$name" "$folder/library/"
done
library=$folder/library/${library##*/}
users=()
((EUID == 0)) || users=(unshare --user --map-root-user)

check() { # what wanted LD_PRELOAD command...
	local what=$1 wanted=$2 said
	local with=(env -i "PATH=$PATH" "LD_PRELOAD=$3")
	shift 3
	said=$("${users[@]}" "${with[@]}" "$@" 2>&1) || said="$said (exit status $?)"
	[[ $said == "$wanted" ]] || {
		echo "$what: '$wanted' expected: '$said'" >&2
		exit 1
	}
}

# A root of env, its libraries, and one that the user preloads.
mkdir -p "$folder/root/bin"
cp /usr/bin/env "$folder/root/bin"
ldd /usr/bin/env | grep -o '/[^ ]*' | while read -r file; do
	mkdir -p "$folder/root${file%/*}"
	cp -L "$file" "$folder/root$file"
done
printf '#!/bin/sh\nexec chroot "$@"\n' >"$folder/start.sh"
chmod +x "$folder/start.sh"
show=(-u PATH -u PWD -u OLDPWD -u SHLVL -u _)

if "${users[@]}" chroot / true 2>/dev/null; then
	check "another root" "" "$library" chroot "$folder/root" /bin/env "${show[@]}"
	check "a script that starts one" "" "$library" "$folder/start.sh" "$folder/root" /bin/env "${show[@]}"
	check "what the user preloads" LD_PRELOAD=libc.so.6 "libc.so.6:$library" chroot "$folder/root" /bin/env "${show[@]}"
else
	echo "elsewhere: other roots not tried: neither root nor a namespace" >&2
	users=()
fi
check "a program of this root" "LD_PRELOAD=$library" "$library" env "${show[@]}"

loader=$(compgen -G "/lib/ld-musl-*.so.1" | head -1 || true)
if [[ -n $loader ]]; then
	printf 'long write(int, const void *, unsigned long); void _exit(int);\nvoid _start(void) { write(1, "ran\\n", 4); _exit(0); }\n' |
		cc -x c -ffreestanding -nostdlib -o "$folder/musl" - -x none "$loader" -Wl,--dynamic-linker="$loader"
	check "a program of musl's" ran "$library" "$folder/musl"
else
	echo "elsewhere: musl not tried: there is none" >&2
fi

# Programs of 32 bits: without C library, for the loader's sake linked with what takes the place of ours.
preload=${library%/*}/\$PLATFORM/${library##*/}
nothing=${library%/*}/libslowrank_nothing_32.so
if [[ -e $nothing && -e /lib/ld-linux.so.2 ]]; then
	printf 'void _start(void) { __asm__ volatile("int $0x80" : : "a"(1), "b"(0)); }\n' |
		cc -x c -m32 -fno-pic -no-pie -nostdlib -o "$folder/short" - -Wl,--no-as-needed -x none "$nothing" \
			"-Wl,-rpath,${library%/*}" -Wl,--dynamic-linker=/lib/ld-linux.so.2
	check "a program of 32 bits" "" "$preload" "$folder/short"
	check "a program of 64 bits" "$library" "$preload" awk '$NF ~ /libslowrank/ { print $NF; exit }' /proc/self/maps
	! "${users[@]}" chroot / true 2>/dev/null ||
		check "another root, by platform" "" "$preload" chroot "$folder/root" /bin/env "${show[@]}"
else
	echo "elsewhere: 32 bits not tried: no -m32, or no loader for it (libc6-i386)" >&2
fi
