#!/usr/bin/env bash
# Makes what the VM boots, once: FOLDER/root (Debian minbase with rdma-core and perftest) and
# FOLDER/kernel (Debian's kernel and its modules). Needs root, debootstrap and the Debian mirror.
# usage: make_root.sh FOLDER
set -euo pipefail
folder=$1
mkdir -p "$folder"
cd "$folder"
suite=bookworm
packages=iproute2,rdma-core,ibverbs-utils,ibverbs-providers,perftest,kmod,procps,libbpf1,libelf1,zlib1g,libnng1,libmsgpackc2,libssl3,libsqlite3-0,jq
packages+=,openmpi-bin,libopenmpi3,libucx0,openssh-client
[[ -e complete && $(cat complete) == "$packages" ]] && exit 0
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v '^#' |
	grep -oE 'https?://[^ ]+' | grep -v security | head -1 || true)
mirror=${mirror:-http://deb.debian.org/debian}

rm -rf complete root root.cpio kernel packages
mkdir kernel packages
kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-6[^ ]*\)$/\1/p' | head -1)
(cd packages && apt-get download -q "$kernel")
dpkg-deb -x packages/linux-image-*.deb kernel
debootstrap --variant=minbase --include="$packages" "$suite" root "$mirror"
rm -rf root/var/cache/apt/archives root/var/lib/apt/lists root/usr/share/{doc,man,locale,info} root/usr/lib/x86_64-linux-gnu/perl
echo "$packages" >complete
