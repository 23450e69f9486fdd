#include "ops/serve/bound_workers.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

/// The name of a worker for a class, which is also its key and its log's name.
std::string name_of(const std::string& class_start) {
  std::string name = "bound-" + class_start;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '-';
  }
  return name;
}

/// The flags that make a program take this class: device and kernel family as they were.
std::vector<std::string> flags_of(const std::string& class_start) {
  std::vector<std::string> flags = {"--only-class", class_start};
  if (!class_start.starts_with("cpu/")) return flags;
  const std::size_t family = std::string("cpu/").size();
  const std::size_t end = class_start.find('/', family);
  flags.insert(flags.end(),
               {"--device", "cpu", "--kernels", class_start.substr(family, end - family)});
  return flags;
}

std::string requests_text(std::int64_t n) {
  return std::to_string(n) + (n == 1 ? " request" : " requests");
}

void say(const std::string& line) {
  std::fprintf(stderr, "holdfast: %s\n", line.c_str());
}

}  // namespace

std::vector<BoundClass> read_bound(const std::string& document, WorkerPrograms& programs) {
  const json parsed = try_parse_json<json>(document);
  std::map<std::string, BoundClass> classes;
  const auto rows = parsed.is_object() ? parsed.find("bound") : parsed.end();
  if (rows == parsed.end() || !rows->is_array()) return {};
  for (const json& row : *rows) {
    if (!row.is_object()) continue;
    const std::string start = row.value("class", "");
    BoundClass& bound = classes[start];
    bound.class_start = start;
    bound.requests += row.value("requests", std::int64_t{0});
    if (row.value("served", false)) continue;
    // Our own workers may be about to load the model in this very class, unless they cannot.
    const bool other = row.value("loaded", false) || !has_class(programs.current(), start);
    bound.needed = bound.needed || other;
  }
  std::vector<BoundClass> all;
  for (auto& [start, bound] : classes) {
    if (bound.needed) bound.program = programs.find(start);
    all.push_back(std::move(bound));
  }
  return all;
}

void BoundWorkers::start(Supervisor& supervisor, const BoundClass& bound) {
  const std::string begun =
      requests_text(bound.requests) + " began in numerics class " + bound.class_start;
  if (bound.program.empty()) {
    if (std::exchange(said_[bound.class_start], true)) return;
    return say("warning: " + begun +
               ", and no worker program that is installed has it: they wait "
               "requests.class_wait_ms and end with determinism_class_unavailable");
  }
  const std::string name = name_of(bound.class_start);
  const auto added = supervisor.add(make_child_(name, bound.program, flags_of(bound.class_start)));
  if (!added) {
    if (!std::exchange(said_[bound.class_start], true)) say(begun + ": " + added.error().what);
    return;
  }
  running_[bound.class_start] = name;
  say(begun + ": " + name + " (" + bound.program + ") goes on with them and takes no others");
}

void BoundWorkers::follow(Supervisor& supervisor, const std::vector<BoundClass>& classes) {
  for (const BoundClass& bound : classes) {
    if (bound.needed && !running_.contains(bound.class_start)) start(supervisor, bound);
  }
  for (auto it = running_.begin(); it != running_.end();) {
    const bool bound = std::ranges::any_of(
        classes, [&](const BoundClass& one) { return one.class_start == it->first; });
    if (bound) {
      ++it;
      continue;
    }
    say("all requests that began in numerics class " + it->first + " have ended: " + it->second +
        " ends");
    supervisor.retire(it->second);
    it = running_.erase(it);
  }
}

}  // namespace holdfast::cli
