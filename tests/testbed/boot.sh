#!/bin/bash
# Becomes pid 1 of one host: makes its root, then runs sshd and dockerd until the power goes.
# Arguments come as environment: HOST, HOME_DIR (this host's folder), and the options below.
set -euo pipefail
D=$HOME_DIR R=$HOME_DIR/root
mount --make-rprivate /
mount -t tmpfs -o "size=${DISK:-512m},mode=755" rw "$D/rw"
mkdir "$D/rw/u" "$D/rw/w"
mount -t overlay overlay -o "lowerdir=/,upperdir=$D/rw/u,workdir=$D/rw/w" "$R"
hostname "$HOST"
mount -t proc proc "$R/proc"
if [ -n "${CGROUP_MEMORY:-}" ]; then
  echo 0 >"$CGROUP_MEMORY/cgroup.procs"
  [ ! -e /var/lib/lxcfs/proc/meminfo ] || mount --bind /var/lib/lxcfs/proc/meminfo "$R/proc/meminfo"
fi
mount -t sysfs sysfs "$R/sys"
mount --rbind /sys/fs/cgroup "$R/sys/fs/cgroup"

mount -t tmpfs -o mode=755 tmpfs "$R/dev"
mkdir "$R/dev/pts" "$R/dev/shm" "$R/dev/mqueue"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$R/dev/pts"
mount -t tmpfs -o mode=1777,size=256m tmpfs "$R/dev/shm"
mount -t mqueue mqueue "$R/dev/mqueue" 2>/dev/null || true
ln -s pts/ptmx "$R/dev/ptmx"; ln -s /proc/self/fd "$R/dev/fd"
for n in 0 1 2; do ln -s "/proc/self/fd/$n" "$R/dev/$(echo stdin stdout stderr | cut -d' ' -f$((n + 1)))"; done
mknod -m 666 "$R/dev/null" c 1 3; mknod -m 666 "$R/dev/zero" c 1 5; mknod -m 666 "$R/dev/full" c 1 7
mknod -m 666 "$R/dev/random" c 1 8; mknod -m 666 "$R/dev/urandom" c 1 9; mknod -m 666 "$R/dev/tty" c 5 0
mknod -m 644 "$R/dev/kmsg" c 1 11; mknod -m 666 "$R/dev/fuse" c 10 229

if [ -n "${INFINIBAND:-}" ]; then   # the look of two RoCE ports; the devices answer like /dev/null
  mkdir "$R/dev/infiniband"
  for f in uverbs0 uverbs1 rdma_cm; do mknod -m 666 "$R/dev/infiniband/$f" c 1 3; done
  mkdir "$D/class"
  (cd "$R/sys/class"; find . \( -type d -o -type l \) -print0 | tar -c --no-recursion --null -T - | tar -C "$D/class" -x)
  n=0
  for hca in rocep1s0f0 roceP2p1s0f0; do
    p=$D/class/infiniband/$hca/ports/1; mkdir -p "$p"/{gids,gid_attrs/types,gid_attrs/ndevs,counters,hw_counters} "$D/class/infiniband/$hca/device/net/eth0"
    echo '4: ACTIVE' >"$p/state"; echo '5: LinkUp' >"$p/phys_state"; echo '200 Gb/sec (4X HDR)' >"$p/rate"; echo Ethernet >"$p/link_layer"
    for g in 0 1 2 3; do
      echo fe80:0000:0000:0000:0000:0000:0000:000$n >"$p/gids/$g"; echo eth0 >"$p/gid_attrs/ndevs/$g"
      [ $((g % 2)) = 0 ] && echo 'IB/RoCE v1' >"$p/gid_attrs/types/$g" || echo 'RoCE v2' >"$p/gid_attrs/types/$g"
    done
    a=$(printf '%02x%02x:%02x%02x' $(echo "$ADDRESS" | tr . ' '))
    for g in 2 3; do echo "0000:0000:0000:0000:0000:ffff:$a" >"$p/gids/$g"; done
    for c in port_rcv_data port_xmit_data port_rcv_errors port_xmit_discards symbol_error link_downed; do echo 0 >"$p/counters/$c"; done
    for c in out_of_sequence packet_seq_err local_ack_timeout_err rnr_nak_retry_err; do echo 0 >"$p/hw_counters/$c"; done
    n=$((n + 1))
  done
  mount -t tmpfs tmpfs "$R/sys/class"; cp -a "$D/class/." "$R/sys/class/"
fi

mount -t tmpfs -o mode=755 tmpfs "$R/run"; mkdir -p "$R/run/sshd" "$R/run/lock"
mount -t tmpfs -o mode=1777,size=512m tmpfs "$R/tmp"
mkdir -p "$R/root" "$R/home" "$R/srv/hf-cache" "$R/var/lib/docker" "$R/etc/ssh" "$R/etc/docker"
for home in "$R/root" "$R/home"; do mount -t tmpfs -o mode=755,size=256m tmpfs "$home"; done   # no rc files of this machine's users
mkdir -m 700 "$R/home/operator" "$R/root/.ssh"; chown 1500:1500 "$R/home/operator"
grep -q '^operator:' "$R/etc/passwd" || {
  echo 'operator:x:1500:1500::/home/operator:/bin/bash' >>"$R/etc/passwd"
  echo 'operator:x:1500:' >>"$R/etc/group"; echo 'operator:*:19000:0:99999:7:::' >>"$R/etc/shadow"
}
if grep -q '^docker:' "$R/etc/group"; then sed -i 's/^\(docker:[^:]*:[^:]*:\).*/\1operator/' "$R/etc/group"
else echo 'docker:x:1501:operator' >>"$R/etc/group"; fi
mount --bind "$D/docker" "$R/var/lib/docker"
while IFS=$'\t' read -r here there; do
  mkdir -p "$R$there"; mount --bind "$here" "$R$there"; mount -o remount,bind,ro "$R$there"
done <"$D/binds"

echo "$HOST" >"$R/etc/hostname"
cp "$D/hosts" "$R/etc/hosts"; cp "$D/sshd_config" "$R/etc/ssh/sshd_config"
cp "$D/hk" "$D/hk.pub" "$R/etc/ssh/"; cp "$D/ak" "$R/etc/ssh/ak"; chmod 600 "$R/etc/ssh/hk"; chmod 644 "$R/etc/ssh/ak"
rm -f "$R/etc/docker/daemon.json" "$R"/etc/profile.d/*
cp -a "$D/files/." "$R/"

exec 9>>"$D/dockerd.log"
mkdir -p "$R/.old-root"; cd "$R"
pivot_root . .old-root   # not chroot: `docker exec` joins the mount namespace and would land in this machine's root
cd /; umount -l /.old-root; rmdir /.old-root
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
/usr/sbin/sshd -D -e -f /etc/ssh/sshd_config 9>&- &
[ ! -x /usr/sbin/start-dockerd ] || /usr/sbin/start-dockerd >&9 2>&1 9>&- </dev/null &
exec 9>&-
# bash as pid 1 reaps what the container engine leaves behind; the host is on as long as this loop runs.
sleep infinity &
while :; do wait -n || sleep 0.2; done
