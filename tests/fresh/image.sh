#!/usr/bin/env bash
# Builds the image of scripts/deploy/container by buildah, without a registry: what stands for Debian's image is a bare
# Debian 12 made by debootstrap. Then runs what it starts by itself (slowrank doctor), with the rights that the file names;
# what buildah's isolation by chroot leaves of these, doctor says.
# usage: tests/fresh/image.sh       exit 77: cannot run here, with the reason
set -euo pipefail
. "$(dirname "$0")/tree.sh"
tree_enter "$@"
command -v buildah >/dev/null || tree_skip "buildah is missing (scripts/install_dependencies.sh image)"
tree_make
file=$tree/srv/slowrank/scripts/deploy/container/Containerfile
base=$(sed -n 's/^FROM \([^ ]*\)$/\1/p' "$file")
version=$(sed -n 's/.*define SLOWRANK_VERSION "\(.*\)".*/\1/p' "$tree/srv/slowrank/analysis/base/version.h")

# Images and containers lie in the tree, and are gone with it.
store=$tree/srv/images
mkdir "$store"
in_store() {
	buildah --root "$store/root" --runroot "$store/run" --storage-driver vfs "$@"
}
tar -C "$tree" --one-file-system --exclude=./srv --exclude='./var/cache/apt/archives/*.deb' -cf "$store/base.tar" .
scratch=$(in_store from scratch)
in_store add --quiet "$scratch" "$store/base.tar" / >/dev/null
in_store config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$scratch"
in_store commit --quiet --rm "$scratch" "$base" >/dev/null
rm "$store/base.tar"
tree_say "$base stands ready"

in_store build --pull-never --isolation chroot --network host --file "$file" --tag slowrank "$tree/srv/slowrank" \
	>"$store/log" 2>&1 </dev/null || {
	tail -30 "$store/log"
	exit 1
}
tree_say "the image is built"

rights=$(sed -n 's/^# *--cap-add=\([A-Z_,]*\).*/\1/p' "$file")
container=$(in_store from --pull-never --pid host --network host --cap-drop all \
	--cap-add "CAP_${rights//,/,CAP_}" localhost/slowrank)
entry=$(in_store inspect --format '{{index .OCIv1.Config.Entrypoint 0}} {{index .OCIv1.Config.Cmd 0}}' "$container")
in_image() { in_store run --isolation chroot --user 0 "$container" -- "$@"; }
[[ $(in_image "${entry% *}" --version) == "slowrank $version" ]] || {
	echo "not version $version: $(in_image "${entry% *}" --version)"
	exit 1
}
# shellcheck disable=SC2086 # what the image starts by itself
in_image $entry || :
echo "built, and run with CAP_${rights//,/, CAP_}"
