#include "bench/neighbours_run/asker.h"

#include <nlohmann/json.hpp>

#include "bench/lib/stats.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {

using nlohmann::json;

Asker::Asker(int port, std::string key, bool reuse_connection, double pause_ms)
    : thread_([this, port, key = std::move(key), reuse_connection, pause_ms] {
        run(port, key, reuse_connection, pause_ms);
      }) {}

/// The text of a completion; empty if there is none.
static std::string text_of(const Answer& answer) {
  const json::json_pointer at("/choices/0/text");
  const json body = try_parse_json<json>(answer.body);
  return body.contains(at) && body[at].is_string() ? body[at].get<std::string>() : "";
}

void Asker::run(int port, const std::string& key, bool reuse_connection, double pause_ms) {
  const std::string request = request_text(
      "POST", "/v1/completions", key,
      R"({"model":"demo","prompt":"To be","max_tokens":8,"ignore_eos":true,"seed":7})");
  Connection connection(port);
  while (!stop_) {
    const Answer answer = connection.ask(request);
    const std::string text = text_of(answer);
    if (text_.empty()) text_ = text;
    if (answer.status == 200 && !text.empty() && text == text_) {
      stats_.ms.push_back(answer.ms);
    } else if (stats_.failures++ == 0) {
      stats_.first_failure = std::to_string(answer.status) + " " + answer.body.substr(0, 300);
    }
    if (!reuse_connection) connection.close();
    sleep_ms(pause_ms);
  }
}

Asker::Stats Asker::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  return std::move(stats_);
}

Result<void> collect(const Asker::Stats& stats, std::vector<double>* ms) {
  ms->insert(ms->end(), stats.ms.begin(), stats.ms.end());
  if (stats.failures == 0) return {};
  return Error{Errc::kInternal, std::to_string(stats.failures) +
                                    " requests failed, the first: " + stats.first_failure};
}

}  // namespace holdfast::bench
