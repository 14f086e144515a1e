#!/usr/bin/env bash
# Installs the Debian package of a build on a bare Debian 12, and watches a real MPI job with it there.
# usage: tests/fresh/deb.sh BUILD_DIR      exit 77: cannot run here, with the reason
set -euo pipefail
. "$(dirname "$0")/tree.sh"
tree_enter "$@"
build=$(readlink -f "${1:?usage: tests/fresh/deb.sh BUILD_DIR}")
tree_make
"$tree_repository/tests/packaging/test_deb.sh" "$build" "$tree/srv"
cp "$build/workload_mpi" "$tree/srv/"

cat >"$tree/srv/try.sh" <<'TRY'
set -eu
export DEBIAN_FRONTEND=noninteractive
cd /srv
apt-get update -qq
apt-get install -y -qq --no-install-recommends ./slowrank_*.deb >log 2>&1 || { cat log; exit 1; }
slowrank --version
ls /usr/share/man/man1/slowrank-run.1.gz /usr/share/bash-completion/completions/slowrank
apt-get install -y -qq --no-install-recommends openmpi-bin >log 2>&1 || { cat log; exit 1; }
slowrank doctor
slowrank run --record job.slr --report job.json -- \
	mpirun --allow-run-as-root --oversubscribe -n 2 /srv/workload_mpi --steps 200
slowrank report job.slr >report
grep -q "steps" report
apt-get purge -y -qq slowrank >log 2>&1 || { cat log; exit 1; }
left=$(find /usr /etc /lib -name '*slowrank*' ! -name slowrank-bare)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo "installed, watched a job, removed"
TRY
tree_run root sh /srv/try.sh
