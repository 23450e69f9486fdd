#!/usr/bin/env bash
# upgrade.sh PACKAGES LOWER ARCHIVES WORKER DAEMON: upgrades under load, by apt, with the service restarted
# as the package does it. First to a version whose worker (WORKER) has another kernels revision: requests
# that had begun end on the old worker, which is kept, with the texts of an undisturbed run. Then to one
# whose daemon (DAEMON) has a newer schema: the way back is refused until the copy is restored.
set -uo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/machine.sh"
clients=32
if [ "${TRIAL_STAGE:-}" != isolated ]; then
  machine_make "$2" "$3" "$1"
  machine_fetch $(packages "holdfast_*.deb")
  TRIAL_STAGE=isolated exec unshare --net --uts --ipc bash "$0" "$@"
fi
LOWER=$2
old=$(packages "holdfast_*.deb")
version=$(dpkg-deb -f "$machine$old" Version)
worker=usr/libexec/holdfast/holdfast-worker
newer() { basename "$("$here/repack" "$machine$old" "$version.$1" $machine/mnt "${@:2}")"; }
kernels=/mnt/$(newer 1 "$worker=$4") || exit 1
schema=/mnt/$(newer 2 "$worker=$4" "usr/libexec/holdfast/holdfastd=$5") || exit 1
machine_boot
before=$(everything)
kept() { inside find /usr/libexec/holdfast/workers -name holdfast-worker 2>/dev/null; }

install "$old" || exit 1
# One thread, so that apt gets on beside the load. The file is the administrator's: upgrades keep it.
inside sed -i 's/^HOLDFAST_SERVE="/&--threads 1 /' /etc/default/holdfast
[ "$LOWER" = / ] || inside systemctl restart holdfast
service_begin
ready
# Who asks for it has what runs interrupted at once, so that there is something to go on with.
inside holdfast config set drain.limit_ms=0 >/dev/null || wrong "drain.limit_ms cannot be set"
"$here/clients" $URL $clients undisturbed >$logs/undisturbed.json 2>/dev/null || wrong "no undisturbed texts"

begun=$EPOCHREALTIME
"$here/clients" $URL $clients upgraded $logs/upgraded >$logs/upgraded.json 2>$logs/answers &
load=$!
for i in $(seq 200); do
  running=$(inside holdfast --json queue stats | grep -o '"running": *[0-9]*' | head -n 1 | grep -o '[0-9]*$')
  [ "${running:-0}" -gt 4 ] && break
  sleep 0.02
done
# The package removes the old worker as soon as it finds that nobody needs it, which may be within apt.
while sleep 0.2; do kept >$logs/kept.now && [ -s $logs/kept.now ] && cp $logs/kept.now $logs/kept; done &
watcher=$!
install "$kernels" || exit 1
apt=$(seconds "$begun")
[ "$LOWER" != / ] || { kill "$server"; wait "$server"; service_begin; }
kill $watcher
kept_at=$(cat $logs/kept 2>/dev/null)
[ -n "$kept_at" ] || wrong "the upgrade kept no worker"
ready
touch $logs/upgraded
wait $load || wrong "a client got no answer over the upgrade"
cmp -s $logs/undisturbed.json $logs/upgraded.json || wrong "texts differ over the upgrade"
service_log | grep -q 'goes on with them and takes no others' || wrong "no request went on on the old worker"
for i in $(seq 100); do service_log | grep -q 'have ended: bound-' && break; sleep 0.1; done
service_log | grep -q 'have ended: bound-' || wrong "the old worker does not end"
printf 'upgrade to newer kernels, %s requests meanwhile: all texts equal; apt %s s; kept in %s\n' \
  "$(cat $logs/answers)" "$apt" "$(dirname "$kept_at")"

install "$schema" || exit 1
[ "$LOWER" != / ] || { kill "$server"; wait "$server"; service_begin; }
ready
for i in $(seq 100); do inside holdfast status --quiet >/dev/null && break; sleep 0.1; done
[ -z "$(kept)" ] || wrong "the next upgrade leaves the kept worker: $(kept)"
text=$(ask demo) || wrong "no answer with the newer schema"
inside grep -q 'HOLDFAST_SERVE="--threads 1 ' /etc/default/holdfast || wrong "an upgrade changes /etc/default/holdfast"

! install "$old" 2>/dev/null || wrong "apt goes back to an older version without being told to"
install --allow-downgrades "$old" || exit 1
[ "$LOWER" != / ] || { kill "$server"; wait "$server"; service_begin; }
for i in $(seq 200); do service_log | grep -q 'made by a newer program' && break; sleep 0.1; done
restore=$(service_log | grep -o 'holdfast --state [^ ]* db restore [^ `]*' | tail -n 1)
[ -n "$restore" ] || { service_log | tail -n 5 >&2; wrong "the older program does not say how to go back"; }
[ "$LOWER" = / ] || inside systemctl stop holdfast
# shellcheck disable=SC2086
inside $restore >$logs/restore.log 2>&1 || { cat $logs/restore.log >&2; wrong "db restore fails"; }
[ "$LOWER" = / ] && service_begin || inside systemctl start holdfast
[ "$(ask demo)" = "$text" ] || wrong "another text after the way back"
printf 'a daemon with a newer schema, and back by: %s\n' "$restore"

[ "$LOWER" != / ] || { kill "$server"; wait "$server"; }
inside apt-get -q -y purge holdfast >$logs/apt.log 2>&1 || { tail -n 20 $logs/apt.log >&2; wrong "purge failed"; }
nothing_left "$before"
