#!/usr/bin/env bash
# deb.sh PACKAGES LOWER ARCHIVES: apt installs the package, the service serves, a model is pulled from a
# hub on loopback and answers, the server is killed and answers again, a purge leaves nothing.
set -uo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/machine.sh"
if [ "${TRIAL_STAGE:-}" != isolated ]; then
  machine_make "$2" "$3" "$1"
  machine_fetch $(packages "*.deb")
  TRIAL_STAGE=isolated exec unshare --net --uts --ipc bash "$0" "$@"
fi
LOWER=$2
machine_boot
"$here/hub" 9000 "$here/../../demo/holdfast-demo-Q8_0.gguf" &
before=$(everything)

begun=$EPOCHREALTIME
install $(packages "holdfast_*.deb") || exit 1
installed=$(seconds "$begun")
service_begin
ready
served=$(seconds "$begun")
inside env HF_ENDPOINT=http://127.0.0.1:9000 holdfast pull hf.co/trial/demo --as pulled --load >$logs/pull.log 2>&1 ||
  { cat $logs/pull.log >&2; wrong "the pull failed"; }
pulled=$(seconds "$begun")
told=$(inside holdfast run pulled "To be, or not" --max-tokens 12 --seed 1 --raw) && [ -n "$told" ] ||
  wrong "no answer of the pulled model"
answered=$(seconds "$begun")
printf 'from apt install to the first answer of a pulled model: %s s (installed %s, serving %s, pulled %s)\n' \
  "$answered" "$installed" "$served" "$pulled"

printf 'Hello\n' | inside holdfast chat pulled >$logs/chat.log 2>&1 && [ -s $logs/chat.log ] ||
  { cat $logs/chat.log >&2; wrong "no chat with the pulled model"; }
inside holdfast --version >/dev/null || wrong "no holdfast on PATH"
[ -n "$(inside find /usr/share/man/man1 -name 'holdfast.1*')" ] || wrong "no manual page"
text=$(ask demo) || wrong "no answer of the demo model"
kill_again() {
  inside sh -c "kill -9 $(service_main)"
  [ "$LOWER" != / ] || wait "$server" 2>/dev/null
  service_begin
}
kill_again
sleep 0.2
again=$(ask demo) || wrong "no answer after a kill"
[ "$text" = "$again" ] || wrong "another text after a kill: $text, $again"
[ "$(ask pulled)" = "$text" ] || wrong "the pulled model's text differs from the demo model's"
inside holdfast requests list | grep -q succeeded || wrong "requests are not on record"
[ "$(inside stat -c %U:%a /var/lib/holdfast)" = holdfast:700 ] || wrong "the state is not private"
install $(packages "*.deb") || exit 1
if [ "$LOWER" = / ]; then kill "$server"; wait "$server"; fi
inside apt-get -q -y purge holdfast libholdfast0 libholdfast-dev holdfast-doc >$logs/apt.log 2>&1 &&
  inside apt-get -q -y autoremove --purge >>$logs/apt.log 2>&1 || { tail -n 20 $logs/apt.log >&2; wrong "purge failed"; }
nothing_left "$before"
