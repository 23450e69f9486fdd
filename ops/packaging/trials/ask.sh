# What trials of a server on port 8080 share; to be sourced.
ip link set lo up
ready() { for _ in $(seq 1200); do curl -sf http://127.0.0.1:8080/health/ready >/dev/null && return 0; sleep 0.05; done; return 1; }
ask() {
  ready || { echo "not ready within a minute"; return 1; }
  curl -sf http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' \
    -d '{"model": "demo", "prompt": "To be, or not", "max_tokens": 12, "seed": 1}' | grep -o '"text":"[^"]*"'
}
