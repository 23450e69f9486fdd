// Models of a house: registering, waiting, asking.
#include <nlohmann/json.hpp>

#include "bench/models_run/cases.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {

using nlohmann::json;

Result<std::unique_ptr<House>> patient_house(const Options& options, const std::string& name,
                                             std::vector<std::string> config) {
  config.emplace_back("link.worker_timeout_ms=5000");
  return make_house(options, name, config);
}

Result<void> add_model(House& house, const Options& options, const ModelWish& wish) {
  const json args = {{"name", wish.name},   {"path", wish.path.empty() ? options.model : wish.path},
                     {"slots", wish.slots}, {"context", wish.context},
                     {"load", wish.load},   {"options", wish.engine_options}};
  HF_TRY(const std::string ignored, house.op("models.add", args.dump()));
  return {};
}

Result<void> operate(House& house, const std::string& verb, const std::string& name) {
  HF_TRY(const std::string ignored, house.op(verb, json{{"name", name}}.dump()));
  return {};
}

Result<json> show_model(House& house, const std::string& name) {
  HF_TRY(const std::string text, house.op("models.show", json{{"name", name}}.dump()));
  json document = try_parse_json<json>(text);
  if (!document.is_object()) return Error{Errc::kInternal, "models.show: no document"};
  return document;
}

Result<void> wait_state(House& house, const std::string& name, const std::string& state,
                        std::int64_t patience_ms) {
  const std::int64_t until = now_us() + patience_ms * 1000;
  std::string now;
  while (now_us() < until) {
    HF_TRY(const json model, show_model(house, name));
    now = model.value("state", "");
    if (now == state) return {};
    if (now == "failed") {
      return Error{Errc::kModelFailed, "model " + name + " failed: " + model.value("reason", "")};
    }
    sleep_ms(1);
  }
  return Error{Errc::kTimeout, "model " + name + " is " + now + ", not " + state + ", after " +
                                   std::to_string(patience_ms) + " ms"};
}

Heard ask(client::Client& client, const std::string& model, std::int64_t number,
          std::int64_t max_tokens) {
  wire::Submit submit = ids_submit(number, max_tokens);
  submit.model = model;
  Heard heard;
  const std::int64_t begin = now_us();
  const auto accepted = client.submit(client::Principal::local(), std::move(submit));
  if (const auto* failure = std::get_if<client::Failure>(&accepted)) {
    heard.failure = failure->message;
    return heard;
  }
  const auto end =
      client.stream(client::AllTenants::local(), std::get<wire::Accepted>(accepted).info.request_id,
                    {}, [&](const wire::Event& event) {
                      heard.tokens += static_cast<std::int64_t>(event.ids.size());
                      heard.ids.insert(heard.ids.end(), event.ids.begin(), event.ids.end());
                    });
  heard.ms = static_cast<double>(now_us() - begin) / 1000;
  if (const auto* failure = std::get_if<client::Failure>(&end)) {
    heard.failure = failure->message;
  } else if (std::get<wire::RequestInfo>(end).state != wire::RequestState::kSucceeded) {
    heard.failure =
        "ended as " + std::string(wire::state_name(std::get<wire::RequestInfo>(end).state));
  }
  return heard;
}

}  // namespace holdfast::bench
