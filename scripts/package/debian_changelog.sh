#!/bin/sh
# The two changelogs of a Debian package: the project's, and that of its packaging.
# usage: scripts/package/debian_changelog.sh OUT_DIR VERSION MAINTAINER
set -eu
export LC_ALL=C

changes=$(dirname "$(readlink -f "$0")")/../../CHANGELOG.md
out=${1:?usage: debian_changelog.sh OUT_DIR VERSION MAINTAINER}
mkdir -p "$out"
gzip -9nc "$changes" >"$out/changelog.gz"
gzip -9nc >"$out/changelog.Debian.gz" <<CHANGES
slowrank ($2) unstable; urgency=medium

  * A package as slowrank's build makes it: changelog.gz has the changes.

 -- $3  $(date -Rud "@${SOURCE_DATE_EPOCH:-$(stat -c %Y "$changes")}")
CHANGES
