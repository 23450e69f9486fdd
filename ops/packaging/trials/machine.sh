# A machine of its own for a trial of Debian packages; to be sourced by the scripts that ops/packaging/try
# runs. It is an overlay over a root that nobody changes, with mounts, processes, names, control groups
# and network of its own; all of it goes with the script.
#
# LOWER is that root: a bare Debian 12, where systemd is process 1 and starts the service by the unit of
# the package, or "/", this machine's, where nothing is started by itself.
URL=http://127.0.0.1:8080
machine=/mnt/root logs=/mnt/logs
wrong() { printf 'try: %s\n' "$*" >&2; exit 1; }

# machine_make LOWER ARCHIVES PACKAGES: mounts it, puts the *.deb of the folder into its /mnt.
machine_make() {
  LOWER=$1
  mount -t tmpfs tmpfs /mnt && mkdir /mnt/{upper,work,root,logs} || exit 75
  mount -t overlay overlay -o "lowerdir=$LOWER,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root || exit 75
  mount -t proc proc $machine/proc
  mount -t tmpfs -o mode=755 tmpfs $machine/dev && mkdir $machine/dev/{pts,shm}
  # Nodes of its own: its systemd changes the rights of some, which must not be this machine's.
  local name minor
  while read -r name minor; do
    mknod -m 666 $machine/dev/$name c $minor
  done <<<$'null 1 3\nzero 1 5\nfull 1 7\nrandom 1 8\nurandom 1 9\ntty 5 0\nconsole 1 3'
  mount -t devpts -o newinstance,ptmxmode=0666 devpts $machine/dev/pts
  ln -s pts/ptmx $machine/dev/ptmx && ln -s /proc/self/fd $machine/dev/fd
  mount -t tmpfs tmpfs $machine/dev/shm
  mount -t tmpfs -o mode=755 tmpfs $machine/run
  mount -t tmpfs tmpfs $machine/tmp
  cp /etc/resolv.conf $machine/run/resolv.conf && mount --bind $machine/run/resolv.conf $machine/etc/resolv.conf
  # What apt fetches goes to ARCHIVES later: two trials at a time do not lock each other out.
  archives=$2
  mkdir -p "$archives/partial" /mnt/fetched/{upper,work}
  mount -t overlay overlay -o "lowerdir=$archives,upperdir=/mnt/fetched/upper,workdir=/mnt/fetched/work" \
    $machine/var/cache/apt/archives || exit 75
  mount -t tmpfs tmpfs $machine/mnt && cp "$3"/*.deb $machine/mnt/
}

# packages PATTERN: their paths in the machine.
packages() { (cd $machine/mnt && printf '/mnt/%s\n' $1); }

# before_boot COMMAND…: runs it in the machine's root, with this machine's network.
before_boot() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot $machine "$@"
}

# machine_fetch FILE…: what apt wants for these packages, so that the trial itself needs no network.
machine_fetch() {
  local get=(apt-get -q -y install --download-only "$@")
  before_boot "${get[@]}" >$logs/fetch.log 2>&1 ||
    { before_boot apt-get -q update && before_boot "${get[@]}"; } >$logs/fetch.log 2>&1 ||
    { tail -n 20 $logs/fetch.log >&2; wrong "packages cannot be fetched"; }
  find /mnt/fetched/upper -maxdepth 1 -name '*.deb' -exec cp -n {} "$archives/" \;
}

# machine_boot: starts it. From now on `inside` runs commands in it.
machine_boot() {
  ip link set lo up
  [ "$LOWER" != / ] || return 0
  mount -t sysfs -o ro sysfs $machine/sys
  mkdir $machine/old
  unshare --mount --pid --cgroup --fork --kill-child bash -c '
    mount -t proc proc /mnt/root/proc
    mount -t cgroup2 cgroup2 /mnt/root/sys/fs/cgroup
    cd /mnt/root && pivot_root . old && umount -l /old
    exec env -i container=trial PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd' </dev/null >/dev/null 2>&1 &
  local booter=$! i
  for i in $(seq 100); do
    first=$(cat /proc/$booter/task/$booter/children 2>/dev/null)
    first=${first%% *}
    [ -n "$first" ] && inside systemctl is-system-running --wait >/dev/null 2>&1 && break
    [ -n "$first" ] && inside systemctl is-system-running 2>/dev/null | grep -q degraded && break
    sleep 0.1
  done
  inside systemctl is-system-running >&2 || inside systemctl --failed --no-pager >&2
  rmdir $machine/old 2>/dev/null
}

# inside COMMAND…: as root in the machine.
inside() {
  local clean=(env -i -C / PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive)
  if [ "$LOWER" = / ]; then
    "${clean[@]}" chroot $machine "$@"
  else
    nsenter -t "$first" --mount --pid --cgroup --root "${clean[@]}" "$@"
  fi
}

# install ARGUMENT…: apt-get install in the machine.
install() {
  inside apt-get -q -y install "$@" >$logs/apt.log 2>&1 || { tail -n 20 $logs/apt.log >&2; return 1; }
}

# service_begin: on this machine's root, where no systemd is, what the unit would do.
service_begin() {
  [ "$LOWER" = / ] || return 0
  # By exec all the way, so that this is the process id of `holdfast serve` itself.
  (exec env -i -C / PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot $machine setsid sh -c '
    . /etc/default/holdfast; export HOLDFAST_STATE=/var/lib/holdfast
    exec holdfast serve --user holdfast --quiet $HOLDFAST_SERVE' >>$logs/serve.log 2>&1) &
  server=$!
}

# service_main: the process id of `holdfast serve`, in the machine.
service_main() {
  if [ "$LOWER" = / ]; then echo "$server"; else inside systemctl show -P MainPID holdfast; fi
}

service_log() {
  if [ "$LOWER" = / ]; then cat $logs/serve.log; else inside journalctl --no-pager -o cat -u holdfast; fi
}

ready() {
  local i
  for i in $(seq 1200); do
    curl -sf $URL/health/ready >/dev/null && return 0
    sleep 0.05
  done
  service_log | tail -n 20 >&2
  wrong "not ready within a minute"
}

# ask MODEL: the text of an answer.
ask() {
  ready
  curl -sf $URL/v1/completions -H 'Content-Type: application/json' \
    -d "{\"model\": \"$1\", \"prompt\": \"To be, or not\", \"max_tokens\": 12, \"seed\": 1}" | grep -o '"text":"[^"]*"'
}

# everything: every file of the machine that is neither in an installed package nor one of the books of
# dpkg, apt, systemd and of the list of authorities.
everything() {
  inside find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run \) -prune -o -print |
    grep -Ev '^/var/lib/(dpkg|apt|systemd)/|^/var/(cache|log)/|^/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|^/etc/machine-id$|^/etc/(ssl|ca-certificates)|^/usr/local/share/ca-certificates$' |
    LC_ALL=C sort | LC_ALL=C comm -23 - <(inside sh -c 'cat /var/lib/dpkg/info/*.list' |
      sed -E 's#^/(bin|lib|lib64|sbin)(/|$)#/usr&#' | LC_ALL=C sort -u)
}

# nothing_left BEFORE: says what a purge has left, and fails, if it has left anything.
nothing_left() {
  local left
  left=$(LC_ALL=C comm -13 <(echo "$1") <(everything))
  [ -z "$left" ] || wrong "a purge leaves $(wc -l <<<"$left") files: $(head -n 20 <<<"$left")"
  ! inside getent passwd holdfast >/dev/null || wrong "a purge leaves the user"
  ! inside getent group holdfast >/dev/null || wrong "a purge leaves the group"
  ! inside sh -c 'cat /proc/[0-9]*/comm' 2>/dev/null | grep -q '^holdfast' || wrong "a purge leaves a process"
  ! grep -q 'holdfast' /proc/net/unix || wrong "a purge leaves a socket"
  ! inside test -e /run/holdfast || wrong "a purge leaves /run/holdfast"
  ! curl -s $URL/ >/dev/null || wrong "a purge leaves a server on its port"
}

# seconds SINCE: since $EPOCHREALTIME was that.
seconds() { awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $1 }"; }
