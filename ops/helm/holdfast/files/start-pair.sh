#!/bin/sh
# Starts the daemon of a machine of the pair, with the flags that it is given, once this machine has its
# key as a standby. The first one of all has none yet: it begins as the primary, whose container `keys`
# makes them. A machine without a database must not be that first one if it is another.
#   POD, HOLDFAST_STATE, STANDBY_KEY
set -eu
key=${STANDBY_KEY:-/run/holdfast/standby.key}
patience=60
if [ ! -e "$HOLDFAST_STATE/control.db" ]; then
  case $POD in *-0) patience=5 ;; *) patience= ;; esac
fi
seconds=0
while [ ! -s "$key" ]; do
  [ -z "$patience" ] || [ "$seconds" -lt "$patience" ] || break
  [ $((seconds % 60)) -ne 0 ] || printf 'start-pair: waiting for %s\n' "$key" >&2
  ${BUSYBOX-/tools/busybox} sleep 1
  seconds=$((seconds + 1))
done
exec holdfast "$@"
