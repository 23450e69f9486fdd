#!/bin/sh
# Makes the keys of a release that are not there yet, and writes a manifest of two Secrets with all of
# them. Runs before the daemon, in its pod (templates/_keys.tpl); arguments are the daemon's --config
# flags. Can be killed at any moment and run again: a file is there only when the daemon has its key.
# With the one argument `pair` it runs beside the daemon of a machine of the pair, without end: what the
# Secrets have is the truth, and keys are made by the daemon that runs, on the primary alone.
#
#   KEYS_DIR     nodes/NODE.key and api/ROLE; a new name makes all keys anew, and other directories
#                beside it are removed
#   NODES        names of nodes; keys of others are revoked
#   GATEWAY      1: api/gateway.key, the key RELEASE-gateway; empty: there is none, and it is revoked
#   RELEASE      API keys are named RELEASE-ROLE
#   NODE_SECRET, API_SECRET, NAMESPACE, MANIFEST
#   STANDBYS     with `pair`: names of the two machines; standby/NAME.key
#   STANDBY_KEY  with `pair`: the file that gets the key of this machine, POD
#   STANDBY_SECRET, GENERATION  with `pair`
#   BUSYBOX      a program with cat, base64 and the like as its first argument; empty: those on PATH
set -eu
umask 077
run() { ${BUSYBOX:+"$BUSYBOX"} "$@"; }
say() { printf 'make-keys: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

roles="operator metrics client"
GATEWAY=${GATEWAY:-}
gateway_key=$KEYS_DIR/api/gateway.key
STANDBYS=${STANDBYS:-}
server=

# Prints the files that are missing, a line each.
missing() {
  for node in $NODES; do [ -s "$KEYS_DIR/nodes/$node.key" ] || echo "$KEYS_DIR/nodes/$node.key"; done
  for name in $STANDBYS; do [ -s "$KEYS_DIR/standby/$name.key" ] || echo "$KEYS_DIR/standby/$name.key"; done
  for role in $roles; do [ -s "$KEYS_DIR/api/$role" ] || echo "$KEYS_DIR/api/$role"; done
  [ -z "$GATEWAY" ] || [ -s "$gateway_key" ] || echo "$gateway_key"
}

# Prints the files of nodes and gateways that are no longer named, a line each.
surplus() {
  [ -n "$GATEWAY" ] || [ ! -e "$gateway_key" ] || echo "$gateway_key"
  for file in "$KEYS_DIR"/nodes/*.key; do
    [ -e "$file" ] || continue
    name=${file##*/}
    case " $NODES " in *" ${name%.key} "*) ;; *) echo "$file" ;; esac
  done
}

# A daemon without workers and HTTP, for as long as keys are made.
start_daemon() {
  holdfast serve --http none --workers 0 --quiet "$@" >/dev/null &
  server=$!
  trap stop_daemon EXIT
  tries=0
  until holdfast keys list --quiet >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || die "the daemon ended before it made keys; its words are above"
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || die "no daemon on $HOLDFAST_STATE after two minutes"
    run sleep 0.2
  done
}
stop_daemon() {
  trap - EXIT
  [ -z "$server" ] && return 0
  kill "$server" 2>/dev/null || :
  wait "$server" || :
  server=
}

# A key that the daemon has, but whose file was lost, is replaced.
make_node_key() {
  run rm -f "$1.new"
  holdfast keys node revoke "$2" --quiet >/dev/null 2>&1 || :
  holdfast keys node create "$2" --out "$1.new" --quiet >/dev/null || die "no key for the node $2"
  run mv "$1.new" "$1"
}
make_gateway_key() {
  run rm -f "$1.new"
  holdfast keys gateway revoke "$RELEASE-gateway" --quiet >/dev/null 2>&1 || :
  holdfast keys gateway create "$RELEASE-gateway" --out "$1.new" --quiet >/dev/null || die "no key for gateways"
  run mv "$1.new" "$1"
}
make_standby_key() {
  run rm -f "$1.new"
  holdfast keys client revoke "$2" --quiet >/dev/null 2>&1 || :
  holdfast keys client create "$2" --role standby --out "$1.new" --quiet >/dev/null || die "no key for the standby $2"
  run mv "$1.new" "$1"
}
make_api_key() {
  holdfast keys revoke "$RELEASE-$2" --quiet >/dev/null 2>&1 || :
  key=$(holdfast keys create "$RELEASE-$2" --role "$2" --quiet 2>/dev/null) || key=
  [ -n "$key" ] || die "no API key for the role $2"
  printf '%s' "$key" >"$1.new"
  run mv "$1.new" "$1"
}
make_missing() {
  missing | while read -r file; do
    name=${file##*/}
    case $file in
      */standby/*) make_standby_key "$file" "${name%.key}" ;;
      */nodes/*) make_node_key "$file" "${name%.key}" ;;
      "$gateway_key") make_gateway_key "$file" ;;
      *) make_api_key "$file" "$name" ;;
    esac
    say "made $name"
  done
}

revoke_surplus() {
  surplus | while read -r file; do
    name=${file##*/}
    case $file in
      "$gateway_key") holdfast keys gateway revoke "$RELEASE-gateway" --quiet ;;
      *) holdfast keys node revoke "${name%.key}" --quiet ;;
    esac >/dev/null || die "$name is not revoked"
    run rm "$file"
    say "revoked $name"
  done
}

# write_secret NAME DIR: a Secret with the files of the directory.
write_secret() {
  printf -- '---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  namespace: %s\n' "$1" "$NAMESPACE"
  printf 'type: Opaque\ndata:\n'
  for file in "$2"/*; do
    case $file in *.new | */'*') continue ;; esac
    printf '  %s: %s\n' "${file##*/}" "$(run base64 <"$file" | run tr -d '\n')"
  done
}

# Puts the Secrets, once `publish` has read them, into files.
take_entries() {
  run rm -rf "$KEYS_DIR"
  run mkdir -p "$KEYS_DIR/nodes" "$KEYS_DIR/api" "$KEYS_DIR/standby"
  run rm -f "$MANIFEST.entries"
  until [ -e "$MANIFEST.entries" ]; do run sleep 0.2; done
  while read -r secret entry text; do
    case $secret in
      "$NODE_SECRET") folder=nodes ;;
      "$API_SECRET") folder=api ;;
      *) folder=standby ;;
    esac
    printf '%s' "$text" | run base64 -d >"$KEYS_DIR/$folder/$entry"
  done <"$MANIFEST.entries"
  [ -e "$KEYS_DIR/standby/generation" ] || return 0
  [ "$(run cat "$KEYS_DIR/standby/generation")" = "$GENERATION" ] || run rm -f "$KEYS_DIR"/*/*
}

# The key of this machine, for its user alone, if there is one by now.
take_standby_key() {
  file=$KEYS_DIR/standby/$POD.key
  [ -s "$file" ] || return 0
  ! run cmp -s "$file" "$STANDBY_KEY" || return 0
  run cp "$file" "$STANDBY_KEY.new"
  run mv "$STANDBY_KEY.new" "$STANDBY_KEY"
  say "took $POD.key"
}

is_primary() {
  case "$(holdfast ha status --json 2>/dev/null)" in *'"role":"primary"'*) return 0 ;; *) return 1 ;; esac
}

until_published() {
  while [ -e "$MANIFEST" ]; do run sleep 0.2; done
}

run_pair() {
  until_published
  while :; do
    take_entries
    take_standby_key
    if is_primary && [ -n "$(missing)$(surplus)" ]; then
      revoke_surplus
      make_missing
      printf '%s' "$GENERATION" >"$KEYS_DIR/standby/generation"
      write_manifest
      until_published
      take_standby_key
    fi
    run sleep "${PAIR_PAUSE:-5}"
  done
}

write_manifest() {
  {
    write_secret "$NODE_SECRET" "$KEYS_DIR/nodes"
    write_secret "$API_SECRET" "$KEYS_DIR/api"
    [ -z "$STANDBYS" ] || write_secret "$STANDBY_SECRET" "$KEYS_DIR/standby"
  } >"$MANIFEST.new"
  run chmod 640 "$MANIFEST.new"
  run mv "$MANIFEST.new" "$MANIFEST"
  say "wrote $MANIFEST"
}

[ "${1:-}" != pair ] || run_pair
run mkdir -p "$KEYS_DIR/nodes" "$KEYS_DIR/api"
if [ -n "$(missing)$(surplus)" ]; then
  start_daemon "$@"
  revoke_surplus
  make_missing
  [ -z "$(missing)" ] || die "some keys could not be made"
  stop_daemon
fi
for old in "${KEYS_DIR%/*}"/*; do
  [ "$old" = "$KEYS_DIR" ] || run rm -rf "$old"
done
write_manifest
