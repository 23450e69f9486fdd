#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/neighbours_run/cases.h"
#include "bench/neighbours_run/http.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {
namespace {

using nlohmann::json;

/// A kind of work that the gateway does for a tenant before the daemon takes part.
struct Front {
  std::string name;
  /// All requests of one turn; kInternal: an answer is wrong.
  std::function<Result<void>(Connection&, const std::string& key)> turn_of_a;
  /// The wait in ms; negative: an answer is wrong.
  std::function<double(Connection&, const std::string& key)> turn_of_b;
};

std::string long_text(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += "a b c d e f g h ";
  return text;
}

/// Accepts this status, or a refusal: a client that requests more than the server can do may be
/// told so, or be cut off over a body that the gateway cannot take in time (status 0: the
/// connection's reset discards that answer). Not for b, which must not be refused.
Result<void> want(int status, const Answer& answer) {
  const bool told = answer.status == 0 || answer.status == 408 || answer.status == 429 ||
                    answer.status == 503 || answer.status == 504;
  if (told || (answer.complete && answer.status == status)) return {};
  return Error{Errc::kInternal,
               "a: " + std::to_string(answer.status) + " " + answer.body.substr(0, 200)};
}

bool remove_file(Connection& connection, const std::string& key, const Answer& uploaded) {
  const std::string id = try_parse_json<json>(uploaded.body).value("id", "");
  return connection.ask(request_text("DELETE", "/v1/files/" + id, key)).status == 200;
}

Front uploads() {
  return {"uploads",
          [](Connection& c, const std::string& key) {
            const Answer answer = c.ask(upload_text(key, std::string(1 << 20, 'x')));
            if (answer.status == 200) (void)remove_file(c, key, answer);
            return want(200, answer);
          },
          [](Connection& c, const std::string& key) {
            const Answer answer = c.ask(upload_text(key, std::string(1'000, 'x')));
            return answer.status == 200 && remove_file(c, key, answer) ? answer.ms : -1;
          }};
}

/// Prompts that are refused for their length after tokenizing.
Front helpers() {
  const std::string prompt = long_text(400'000);
  return {"helpers",
          [body = json{{"model", "demo"}, {"prompt", prompt}, {"max_tokens", 1}}.dump()](
              Connection& c, const std::string& key) {
            return want(400, c.ask(request_text("POST", "/v1/completions", key, body)));
          },
          [](Connection& c, const std::string& key) {
            const std::string body =
                R"({"model":"demo","prompt":"To be","max_tokens":2,"ignore_eos":true,)"
                R"("stream":true})";
            return c.ask(request_text("POST", "/v1/completions", key, body)).first_ms;
          }};
}

Front tokens() {
  const std::string prompt = long_text(400'000);
  return {"tokenize",
          [body = json{{"model", "demo"}, {"prompt", prompt}}.dump()](Connection& c,
                                                                      const std::string& key) {
            return want(200, c.ask(request_text("POST", "/tokenize", key, body)));
          },
          [](Connection& c, const std::string& key) {
            const Answer answer = c.ask(
                request_text("POST", "/tokenize", key, R"({"model":"demo","prompt":"To be"})"));
            return answer.status == 200 && answer.complete ? answer.ms : -1;
          }};
}

/// b's waits, one turn after the other; the last is negative if b was refused.
std::vector<double> waits_of_b(const Front& front, int port, const std::string& key, int tries) {
  Connection connection(port);
  std::vector<double> waits;
  for (int i = 0; i < tries; ++i) {
    sleep_ms(30 + i * 7 % 20);
    waits.push_back(front.turn_of_b(connection, key));
    if (waits.back() < 0) break;
  }
  return waits;
}

/// b's waits while a keeps `many` turns in flight.
Result<std::vector<double>> waits_under_load(const Front& front, int port,
                                             const std::string& key_of_a,
                                             const std::string& key_of_b, int many, int tries) {
  std::atomic<bool> stop = false;
  std::vector<Result<void>> good_a(static_cast<std::size_t>(many));
  std::vector<std::thread> threads;
  for (int i = 0; i < many; ++i) {
    threads.emplace_back([&, i] {
      Connection connection(port, "127.0.0." + std::to_string(2 + i % 8));
      Result<void>& good = good_a[static_cast<std::size_t>(i)];
      while (!stop && good) good = front.turn_of_a(connection, key_of_a);
    });
  }
  sleep_ms(1'000);
  std::vector<double> waits = waits_of_b(front, port, key_of_b, tries);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  if (!waits.empty() && waits.back() < 0) {
    return Error{Errc::kInternal, front.name + ": b was refused"};
  }
  for (const Result<void>& one : good_a) {
    if (!one) return Error{one.error().code, front.name + ": " + one.error().what};
  }
  return waits;
}

}  // namespace

Result<void> bench_fronts(const Options& options, const std::string& engine, Report& report) {
  HOLDFAST_TRY(const auto served, serve(options, "fronts", engine, 1'000));
  HOLDFAST_TRY(const std::string a, served->make_key("a"));
  HOLDFAST_TRY(const std::string b, served->make_key("b"));
  const int tries = options.count(20, 5);
  for (const Front& front : {uploads(), helpers(), tokens()}) {
    std::vector<double> one, many;
    for (int round = 0; round < options.count(2, 1); ++round) {
      HOLDFAST_TRY(const auto with_one, waits_under_load(front, served->port(), a, b, 1, tries));
      HOLDFAST_TRY(const auto all,
                   waits_under_load(front, served->port(), a, b, options.count(64, 16), tries));
      one.insert(one.end(), with_one.begin(), with_one.end());
      many.insert(many.end(), all.begin(), all.end());
    }
    const std::string name = "fronts." + front.name;
    add_waits(report, name + ".one", one);
    add_waits(report, name + ".many", many);
    const Summary with_one = summarize(one), all = summarize(many);
    report.add(name + ".p50_x", ratio(all.p50, with_one.p50), "of one", Goal{2, Better::kLower});
    report.add(name + ".p95_x", ratio(all.p95, with_one.p95), "of one", Goal{2, Better::kLower});
  }
  return {};
}

}  // namespace holdfast::bench
