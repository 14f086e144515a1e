#!/usr/bin/env bash
# Runs a command of this commit on a bare Debian 12, which sees nothing of this machine's packages: as root, or as an
# ordinary user with sudo.
# usage: run.sh [--user] COMMAND [ARG...]      exit 77: cannot run here, with the reason
set -euo pipefail
. "$(dirname "$0")/tree.sh"
tree_enter "$@"
user=root
if [[ ${1:-} == --user ]]; then
	user=somebody
	shift
fi
(($#)) || {
	echo "usage: $0 [--user] COMMAND [ARG...]" >&2
	exit 2
}
tree_make
[[ $user == root ]] || tree_add_user "$user"
tree_run "$user" "$@"
