#!/bin/sh
# The first process of a host: makes its root file system and becomes systemd.
#
#   sh boot.sh NAME PLACE PACKAGES SEED HIDDEN
#
# PLACE: the host's disk, a file system of its own: an upper layer inside the lower one is refused.
# Empty, or what an earlier host has left there. PACKAGES: the archive of install.sh. SEED: files that the host has from the
# beginning. HIDDEN: folders of this machine that it does not have, separated by colons.
# Waits for a line on standard input before systemd starts: then the network is there.
set -eu
name=$1 place=$2 packages=$3 seed=$4 hidden=$5

hostname "$name"
mount --make-rprivate /
cd "$place"
if [ ! -d packages ]; then
  mkdir packages up work root
  tar --extract --xattrs --xattrs-include='trusted.overlay.*' --file "$packages" \
    --directory packages
fi
mount -t overlay overlay \
  -o "lowerdir=$place/packages:/,upperdir=$place/up,workdir=$place/work" root
cd root

IFS=:
for folder in $hidden; do
  [ ! -d "./$folder" ] || mount -t tmpfs -o mode=755 tmpfs "./$folder"
done
unset IFS
cp --recursive --no-preserve=ownership "$seed/." .
chmod 700 root

: >etc/fstab
# Units for devices, terminals and a network manager, which a host in namespaces does not have, and
# those that would change settings of the whole machine.
for unit in \
  systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
  systemd-udev-trigger.service systemd-modules-load.service \
  sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
  dev-hugepages.mount dev-mqueue.mount \
  systemd-networkd.service systemd-networkd.socket systemd-timesyncd.service \
  systemd-logind.service systemd-sysctl.service systemd-firstboot.service \
  apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer \
  getty.target getty@tty1.service console-getty.service; do
  ln -sf /dev/null "etc/systemd/system/$unit"
done
ln -sf /lib/systemd/system/multi-user.target etc/systemd/system/default.target

# shellcheck disable=SC2034
read -r network_is_there

mount -t proc proc proc
# The machine's own settings are read-only; those of the network belong to the host.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount --bind proc/sys/net proc/sys/net
mount -o remount,bind,rw proc/sys/net
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
while IFS=: read -r number controllers _; do
  case $controllers in
  name=systemd)
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
    ;;
  "") ;; # the unified hierarchy beside those of version 1
  *)
    mkdir "sys/fs/cgroup/$controllers"
    mount -t cgroup -o "$controllers" cgroup "sys/fs/cgroup/$controllers"
    ;;
  esac
done </proc/self/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mknod -m 666 dev/tty c 5 0
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr

mkdir -p mnt/machine
pivot_root . mnt/machine
umount -l /mnt/machine
exec env -i container=slipway PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd
