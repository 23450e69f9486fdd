#include "ops/cli/status_screen.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/terminal/output.h"
#include "ops/terminal/width.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kWorkerRowsMax = 16, kModelRowsMax = 12, kQueueRowsMax = 12;

std::string number(const json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number()) return "-";
  return std::to_string(it->get<std::int64_t>());
}

std::string bytes(const json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number() || it->get<double>() <= 0) return "-";
  return human_bytes(it->get<double>());
}

std::string text(const json& object, const char* key) {
  const std::string value = object.value(key, std::string());
  return value.empty() ? "-" : value;
}

const json& part(const json& document, const char* key) {
  static const json none = json::object();
  const auto it = document.find(key);
  return it == document.end() ? none : *it;
}

struct Screen {
  bool colour;
  std::size_t width;
  std::string out;

  void title(const std::string& name) {
    out += '\n';
    if (colour) out += "\033[1m";
    out += name;
    if (colour) out += "\033[0m";
    out += '\n';
  }
  void table(const Table& table, std::size_t left_out = 0) {
    std::string block = table.str(colour, width > 4 ? width - 2 : width);
    if (left_out > 0) block += "… " + std::to_string(left_out) + " more, see --json\n";
    std::size_t at = 0;
    while (at < block.size()) {
      const std::size_t end = block.find('\n', at);
      out += "  " + block.substr(at, end - at) + '\n';
      at = end + 1;
    }
  }
};

void add_daemon(Screen& s, const json& document) {
  const json& daemon = part(document, "daemon");
  s.out += "holdfast " + text(daemon, "version") + "  up " +
           human_duration(daemon.value("uptime_ms", 0.0)) + "  epoch " + number(daemon, "epoch") +
           "  pid " + number(daemon, "pid") + "  config " + number(daemon, "config_version") +
           "  helpers " + number(daemon, "ingress_helpers") + "  streams " +
           number(daemon, "streams") + '\n';
}

void add_problems(Screen& s, const json& document) {
  const json& problems = part(document, "problems");
  if (problems.empty()) {
    s.out += s.colour ? "\033[32mno problems\033[0m\n" : "no problems\n";
    return;
  }
  s.title("PROBLEMS");
  for (const json& problem : problems) {
    const bool error = text(problem, "level") == "error";
    const std::string level = error ? "error  " : "warning";
    s.out += "  " + (s.colour ? (error ? "\033[31m" : "\033[33m") + level + "\033[0m" : level);
    s.out += " " + text(problem, "subject") + ": " + text(problem, "what") + "\n          → " +
             text(problem, "hint") + '\n';
  }
}

std::string worker_state(const json& worker) {
  const std::string breaker = text(worker, "breaker");
  if (text(worker, "state") != "ready" || breaker == "closed") return text(worker, "state");
  return "breaker open";
}

void add_workers(Screen& s, const json& workers) {
  s.title("WORKERS");
  if (workers.empty()) {
    s.out += "  none\n";
    return;
  }
  Table table({"worker", "state", "device", "kernels", "threads", "pid", "models", "slots",
               "KV pages", "memory", "restarts"});
  std::size_t rows = 0;
  for (const json& w : workers) {
    if (++rows > kWorkerRowsMax) break;
    std::string models;
    for (const json& name : part(w, "models")) {
      models += (models.empty() ? "" : ",") + name.get<std::string>();
    }
    table.add({text(w, "key"), worker_state(w), text(w, "device"), text(w, "kernels"),
               number(w, "threads"), number(w, "pid"), models.empty() ? "-" : shorten(models, 40),
               number(w, "running") + "/" + number(w, "slots"),
               number(w, "pages_used") + "/" + number(w, "pages"), bytes(w, "rss_bytes"),
               number(w, "restarts")});
  }
  s.table(table, workers.size() - std::min(workers.size(), kWorkerRowsMax));
}

void add_model_rows(Table& table, const json& m) {
  const bool failed = text(m, "state") == "failed";
  const std::string state =
      text(m, "state") + (text(m, "breaker") != "closed" ? ", breaker open" : "");
  const std::string reason = failed ? shorten(text(m, "reason"), 60) : "-";
  const json& loads = part(m, "loads");
  if (loads.empty()) {
    table.add({text(m, "name"), state, "-", number(m, "context"), "-", "-", "-", reason});
  }
  for (const json& load : loads) {
    table.add({text(m, "name"), text(load, "state"), text(load, "worker"), number(m, "context"),
               number(load, "running") + "/" + number(load, "slots"), bytes(load, "reserved_bytes"),
               bytes(load, "taken_bytes"), reason});
  }
}

void add_models(Screen& s, const json& models) {
  s.title("MODELS");
  if (models.empty()) {
    s.out += "  none; add one with `holdfast models add NAME FILE.gguf`\n";
    return;
  }
  // Models that are loaded or have failed come before those that are only registered.
  std::vector<const json*> order;
  for (const json& m : models) order.push_back(&m);
  std::stable_partition(order.begin(), order.end(), [](const json* m) {
    return !part(*m, "loads").empty() || text(*m, "state") == "failed";
  });
  Table table({"model", "state", "on", "context", "slots", "reserved", "measured", "reason"});
  std::size_t rows = 0;
  for (const json* m : order) {
    if (++rows > kModelRowsMax) break;
    add_model_rows(table, *m);
  }
  s.table(table, order.size() - std::min(order.size(), kModelRowsMax));
}

void add_memory(Screen& s, const json& devices) {
  if (devices.empty()) return;
  s.title("MEMORY");
  Table table({"device", "host", "workers", "total", "free", "used by workers", "reservable",
               "reserved", "left for loads"});
  for (const json& d : devices) {
    table.add({text(d, "device"), text(d, "host"), number(d, "workers"), bytes(d, "total_bytes"),
               bytes(d, "free_bytes"), bytes(d, "used_bytes"), bytes(d, "reservable_bytes"),
               bytes(d, "reserved_bytes"), bytes(d, "unreserved_bytes")});
  }
  s.table(table);
}

void add_queue(Screen& s, const json& document) {
  const json& queue = part(document, "queue");
  const bool paused = queue.value("paused", false);
  s.title("QUEUE");
  s.out += "  waiting " + number(queue, "queued_choices") + "  running " +
           number(queue, "running_choices") + "  being prepared " + number(queue, "preparing") +
           (paused ? "  PAUSED" : "") + '\n';
  const json& lines = part(queue, "lines");
  if (lines.empty()) return;
  std::vector<const json*> order;
  for (const json& line : lines) order.push_back(&line);
  std::stable_sort(order.begin(), order.end(), [](const json* a, const json* b) {
    return a->value("oldest_wait_ms", 0.0) > b->value("oldest_wait_ms", 0.0);
  });
  Table table({"model", "tenant", "priority", "waiting", "running", "oldest waits"});
  std::size_t rows = 0;
  for (const json* line : order) {
    if (++rows > kQueueRowsMax) break;
    const bool waits = line->value("waiting", 0) > 0;
    table.add({text(*line, "model"), shorten(text(*line, "tenant"), 32), text(*line, "priority"),
               number(*line, "waiting"), number(*line, "running"),
               waits ? human_duration(line->value("oldest_wait_ms", 0.0)) : "-"});
  }
  s.table(table, order.size() - std::min(order.size(), kQueueRowsMax));
}

void add_times(Screen& s, const json& document) {
  const json& rates = part(document, "rates");
  char line[160];
  std::snprintf(line, sizeof line,
                "  requests accepted %.1f/s, ended %.1f/s; tokens %.1f/s (last minute)\n",
                rates.value("accepted_per_s", 0.0), rates.value("ended_per_s", 0.0),
                rates.value("tokens_per_s", 0.0));
  s.title("RATES AND TIMES");
  s.out += line;
  const std::pair<const char*, const char*> rows[] = {
      {"wait in the queue", "queue_wait"},  {"time to first token", "first_token"},
      {"between tokens", "token_gap"},      {"end to end", "end_to_end"},
      {"model made ready", "model_switch"}, {"commit", "commit"}};
  Table table({"since the start", "p50", "p95", "p99", "max", "count"});
  for (const auto& [name, key] : rows) {
    const json& times = part(part(document, "latency"), key);
    const bool any = times.value("count", 0.0) > 0;
    const auto cell = [&](const char* quantile) {
      return any ? human_duration(times.value(quantile, 0.0)) : std::string("-");
    };
    table.add({name, cell("p50_ms"), cell("p95_ms"), cell("p99_ms"), cell("max_ms"),
               number(times, "count")});
  }
  s.table(table);
}

void add_limits(Screen& s, const json& document) {
  const json& counters = part(document, "counters");
  s.title("REFUSED AND ENDED");
  s.out += "  accepted " + number(counters, "accepted");
  for (const char* end : {"succeeded", "failed", "cancelled", "expired", "refused"}) {
    s.out += std::string("  ") + end + " " + number(counters, end);
  }
  s.out += '\n';
  const json& refusals = part(document, "refusals");
  if (!refusals.empty()) s.out += "  refused:";
  for (const auto& [reason, count] : refusals.items()) {
    s.out += "  " + reason + " " + std::to_string(count.get<std::int64_t>());
  }
  if (!refusals.empty()) s.out += '\n';
  s.title("LIMITS");
  Table table({"knob", "now", "bound"});
  for (const json& limit : part(document, "limits")) {
    const std::string name = text(limit, "name");
    const bool none = limit.value("limit", 0.0) == 0;
    const bool is_bytes = name.ends_with("bytes");
    table.add({name, is_bytes ? bytes(limit, "used") : number(limit, "used"),
               none       ? "none"
               : is_bytes ? bytes(limit, "limit")
                          : number(limit, "limit")});
  }
  s.table(table);
}

}  // namespace

std::string status_screen(const json& document, bool colour, std::size_t width) {
  Screen screen{colour, width, {}};
  add_daemon(screen, document);
  add_problems(screen, document);
  add_workers(screen, part(document, "workers"));
  add_models(screen, part(document, "models"));
  add_memory(screen, part(document, "devices"));
  add_queue(screen, document);
  add_times(screen, document);
  add_limits(screen, document);
  return wrap_lines(screen.out, width);
}

std::string human_duration(double ms) {
  char buffer[48];
  const auto whole = static_cast<long long>(ms / 1000);
  if (ms < 1) {
    std::snprintf(buffer, sizeof buffer, "%.0f us", ms * 1000);
  } else if (ms < 1000) {
    std::snprintf(buffer, sizeof buffer, "%.1f ms", ms);
  } else if (ms < 60'000) {
    std::snprintf(buffer, sizeof buffer, "%.1f s", ms / 1000);
  } else if (ms < 3'600'000) {
    std::snprintf(buffer, sizeof buffer, "%lld min %lld s", whole / 60, whole % 60);
  } else if (ms < 86'400'000) {
    std::snprintf(buffer, sizeof buffer, "%lld h %lld min", whole / 3600, whole / 60 % 60);
  } else {
    std::snprintf(buffer, sizeof buffer, "%lld d %lld h", whole / 86'400, whole / 3600 % 24);
  }
  return buffer;
}

}  // namespace holdfast::cli
