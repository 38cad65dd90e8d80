#!/bin/sh
# Starts a host in namespaces and control groups of its own.
#
#   sh launch.sh GROUPS NAME PLACE PACKAGES SEED HIDDEN
#
# GROUPS: the control groups of the host, one per hierarchy, separated by colons.
set -eu
groups=$1
shift
IFS=:
for group in $groups; do
  echo $$ >"$group/cgroup.procs" # before unshare, so that the host sees its group as the root
done
# The host ends with whoever started it, even if that was killed.
exec setpriv --pdeathsig KILL \
  unshare --pid --mount --uts --ipc --cgroup --net --fork --kill-child=KILL \
  sh "$(dirname "$0")/boot.sh" "$@"
