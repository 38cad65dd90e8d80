#!/bin/sh
# Packs what installing packages adds to this machine, without installing anything on it.
#
#   unshare --mount sh install.sh PLACE ARCHIVE PACKAGE...
#
# PLACE is an empty folder. All mounts are in this process's own mount namespace and end with it.
set -eu
place=$1 archive=$2
shift 2

mount --make-rprivate /
mount -t tmpfs tmpfs "$place"
cd "$place"
mkdir added work root
mount -t overlay overlay -o "lowerdir=/,upperdir=$place/added,workdir=$place/work" root
mount -t proc proc root/proc
mount --bind /dev root/dev
mount -t tmpfs tmpfs root/tmp
cp -L /etc/resolv.conf root/etc/resolv.conf
# Debian asks this program whether a service may start: never.
printf '#!/bin/sh\nexit 101\n' >root/usr/sbin/policy-rc.d
chmod +x root/usr/sbin/policy-rc.d

export DEBIAN_FRONTEND=noninteractive
chroot root apt-get --quiet update
chroot root apt-get --quiet --yes --no-install-recommends install "$@"

umount root/tmp root/dev root/proc root
# Every host makes keys of its own.
rm -f added/usr/sbin/policy-rc.d added/etc/resolv.conf added/etc/ssh/ssh_host_*
rm -rf added/var/cache/apt added/var/lib/apt/lists added/var/log
tar --create --xattrs --xattrs-include='trusted.overlay.*' --file "$archive.partial" \
  --directory added .
mv "$archive.partial" "$archive"
