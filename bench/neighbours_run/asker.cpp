#include "bench/neighbours_run/asker.h"

#include <nlohmann/json.hpp>

#include "bench/lib/stats.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {

using nlohmann::json;

Asker::Asker(int port, std::string key, bool kept, double pause_ms)
    : thread_(
          [this, port, key = std::move(key), kept, pause_ms] { run(port, key, kept, pause_ms); }) {}

void Asker::run(int port, const std::string& key, bool kept, double pause_ms) {
  const json::json_pointer at("/choices/0/text");
  const std::string request = request_text(
      "POST", "/v1/completions", key,
      R"({"model":"demo","prompt":"To be","max_tokens":8,"ignore_eos":true,"seed":7})");
  Connection connection(port);
  while (!stop_) {
    const Answer answer = connection.ask(request);
    const json body = try_parse_json<json>(answer.body);
    const std::string text =
        body.contains(at) && body[at].is_string() ? body[at].get<std::string>() : "";
    if (text_.empty()) text_ = text;
    if (answer.status != 200 || text.empty() || text != text_) {
      if (heard_.failures++ == 0) {
        heard_.first_failure = std::to_string(answer.status) + " " + answer.body.substr(0, 300);
      }
    } else {
      heard_.ms.push_back(answer.ms);
    }
    if (!kept) connection.close();
    sleep_ms(pause_ms);
  }
}

Asker::Heard Asker::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  return std::move(heard_);
}

Result<void> collect(const Asker::Heard& heard, std::vector<double>* ms) {
  ms->insert(ms->end(), heard.ms.begin(), heard.ms.end());
  if (heard.failures == 0) return {};
  return Error{Errc::kInternal, std::to_string(heard.failures) +
                                    " requests failed, the first: " + heard.first_failure};
}

}  // namespace holdfast::bench
