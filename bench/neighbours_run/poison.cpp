#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/neighbours_run/asker.h"
#include "bench/neighbours_run/bodies.h"
#include "bench/neighbours_run/cases.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {
namespace {

using nlohmann::json;

constexpr double kPauseMs = 20;
constexpr double kGatewayMib = 256;

/// The tenant that sends poison bodies. An item that does not end as an error of its own is an
/// error here.
class Poisoner {
 public:
  Poisoner(int port, std::string key) : key_(std::move(key)), connection_(port) {}

  /// Sends each body as a POST to each path that reads such bodies.
  Result<void> post_all() {
    for (const char* path : {"/v1/chat/completions", "/tokenize"}) {
      for (const Poison& poison : poisons_) {
        const Answer answer = connection_.ask(request_text("POST", path, key_, poison.body));
        if (answer.status != 400 && answer.status != 413) {
          return Error{Errc::kInternal, std::string(poison.name) + " at " + path + ": " +
                                            std::to_string(answer.status) + " " +
                                            answer.body.substr(0, 200)};
        }
        ++items_;
      }
    }
    return {};
  }

  /// Makes a batch of all of them as lines, with a good one first and last; gives its id.
  Result<std::string> make_batch() {
    std::string content = batch_line("first", good_body());
    for (const Poison& poison : poisons_) content += batch_line(poison.name, poison.body);
    content += batch_line("last", good_body());
    HOLDFAST_TRY(const json file, made(connection_.ask(upload_text(key_, content))));
    const json body = {{"input_file_id", file["id"]},
                       {"endpoint", "/v1/chat/completions"},
                       {"completion_window", "24h"}};
    HOLDFAST_TRY(const json batch,
                 made(connection_.ask(request_text("POST", "/v1/batches", key_, body.dump()))));
    return batch["id"].get<std::string>();
  }

  /// Checks that each of them ended as an error of its own, and the two good ones well.
  Result<void> judge_batch(const std::string& id) {
    HOLDFAST_TRY(const json batch, ended(id));
    HOLDFAST_TRY(const auto good, lines_of(batch["output_file_id"]));
    HOLDFAST_TRY(const auto bad, lines_of(batch["error_file_id"]));
    if (batch["status"] != "completed" || !good.contains("first") || !good.contains("last")) {
      return Error{Errc::kInternal, "a good line did not end well: " + batch.dump()};
    }
    for (const Poison& poison : poisons_) {
      const auto it = bad.find(poison.name);
      const json::json_pointer at("/response/status_code");
      if (it == bad.end() || !it->second.contains(at) || it->second[at] != 400) {
        return Error{Errc::kInternal, std::string("line ") + poison.name +
                                          " is no error of its own: " + batch.dump()};
      }
      ++items_;
    }
    return {};
  }
  int items() const { return items_; }

 private:
  static Result<json> made(const Answer& answer) {
    json body = try_parse_json<json>(answer.body);
    if (answer.status == 200 && body.is_object() && body.contains("id")) return body;
    return Error{Errc::kInternal, "make a batch: " + std::to_string(answer.status) + " " +
                                      answer.body.substr(0, 300)};
  }

  Result<json> ended(const std::string& id) {
    json batch;
    for (int i = 0; i < 1'200; ++i) {
      const Answer answer = connection_.ask(request_text("GET", "/v1/batches/" + id, key_));
      batch = try_parse_json<json>(answer.body);
      const std::string status = batch.is_object() ? batch.value("status", "") : "";
      if (status == "completed" || status == "failed") return batch;
      sleep_ms(50);
    }
    return Error{Errc::kTimeout, "the batch does not end: " + batch.dump()};
  }

  /// The lines of a file by custom id.
  Result<std::map<std::string, json>> lines_of(const json& file) {
    std::map<std::string, json> lines;
    if (!file.is_string()) return lines;
    const std::string path = "/v1/files/" + file.get<std::string>() + "/content";
    std::istringstream in(connection_.ask(request_text("GET", path, key_)).body);
    for (std::string line; std::getline(in, line);) {
      const json one = try_parse_json<json>(line);
      if (one.is_object()) lines[one.value("custom_id", "")] = one;
    }
    return lines;
  }

  const std::string key_;
  Connection connection_;
  const std::vector<Poison> poisons_ = poisons();
  int items_ = 0;
};

struct Pair {
  std::vector<double> alone, with;
};

/// The neighbour's times alone, and while `poison` is repeated.
template <class Do>
Result<void> round_of(const Served& served, const std::string& key, double seconds, Do poison,
                      Pair* pair) {
  {
    Asker neighbour(served.port(), key, true, kPauseMs);
    sleep_ms(seconds * 1000);
    HOLDFAST_CHECKED(collect(neighbour.stop(), &pair->alone));
  }
  Asker neighbour(served.port(), key, true, kPauseMs);
  const std::int64_t until = now_us() + static_cast<std::int64_t>(seconds * 1e6);
  Result<void> done{};
  while (now_us() < until && done) done = poison();
  const Result<void> collected = collect(neighbour.stop(), &pair->with);
  return done ? collected : done;
}

void add_pair(Report& report, const std::string& name, const Pair& pair) {
  add_waits(report, name + ".alone", pair.alone, true);
  add_waits(report, name + ".with", pair.with, true);
  report.add(name + ".p99_x", ratio(summarize(pair.with).p99, summarize(pair.alone).p99),
             "of alone", Goal{2, Better::kLower});
}

Result<void> over_a_restart(Served& served, Poisoner& poisoner, double* peak) {
  HOLDFAST_TRY(const std::string id, poisoner.make_batch());
  *peak = std::max(*peak, peak_mib(served.pid_of("gateway")));
  HOLDFAST_CHECKED(served.restart());
  return poisoner.judge_batch(id);
}

}  // namespace

Result<void> bench_poison(const Options& options, const std::string& engine, Report& report) {
  HOLDFAST_TRY(const auto served, serve(options, "poison", engine, 2'000));
  HOLDFAST_TRY(const std::string a, served->make_key("a"));
  HOLDFAST_TRY(const std::string b, served->make_key("b"));
  Poisoner poisoner(served->port(), a);
  Pair posts, lines, warm;
  const double seconds = options.seconds(10);
  const auto post = [&] { return poisoner.post_all(); };
  const auto batch = [&]() -> Result<void> {
    HOLDFAST_TRY(const std::string id, poisoner.make_batch());
    return poisoner.judge_batch(id);
  };
  HOLDFAST_CHECKED(round_of(*served, b, options.seconds(2), post, &warm));
  for (int round = 0; round < options.count(3, 1); ++round) {
    HOLDFAST_CHECKED(round_of(*served, b, seconds, post, &posts));
    HOLDFAST_CHECKED(round_of(*served, b, seconds, batch, &lines));
  }
  double peak = peak_mib(served->pid_of("gateway"));
  if (served->restarts_of("gateway") != 0) {
    return Error{Errc::kInternal, "a gateway died"};
  }
  for (int i = 0; i < options.count(3, 1); ++i) {
    HOLDFAST_CHECKED(over_a_restart(*served, poisoner, &peak));
    peak = std::max(peak, peak_mib(served->pid_of("gateway")));
    if (served->restarts_of("gateway") != 0) return Error{Errc::kInternal, "a gateway died"};
  }
  const std::string name = "poison." + engine;
  add_pair(report, name + ".posts", posts);
  add_pair(report, name + ".lines", lines);
  report.add(name + ".items", poisoner.items(), "errors", std::nullopt, "each of its own");
  report.add(name + ".restarts", options.count(3, 1), "of all");
  report.add(name + ".memory_peak", peak, "MiB", Goal{kGatewayMib, Better::kLower},
             "of the gateway");
  return {};
}

}  // namespace holdfast::bench
