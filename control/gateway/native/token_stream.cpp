#include "control/gateway/native/token_stream.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/gateway/http/errors.h"
#include "shared/base/base64.h"
#include "shared/base/json_text.h"
#include "shared/request_json/request_json.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

TokenWriter::TokenWriter(wire::RequestInfo info, std::vector<std::int64_t> resume_from)
    : info_(std::move(info)), sent_(std::move(resume_from)) {}

std::string TokenWriter::introduce() {
  if (std::exchange(introduced_, true)) return {};
  json state = try_parse_json<json>(request_json::state_json(info_));
  state["stops"] = info_.stops;
  std::string out;
  append_event_without_id(out, "request",
                          state.dump(-1, ' ', false, json::error_handler_t::replace));
  return out;
}

std::string TokenWriter::on_event(const wire::Event& event) {
  std::string out = introduce();
  const auto choice = static_cast<std::size_t>(event.choice);
  if (sent_.size() <= choice) sent_.resize(choice + 1, 0);
  const std::size_t count = std::min(event.ids.size(), event.ends.size());
  const auto skipped = static_cast<std::size_t>(
      std::clamp<std::int64_t>(sent_[choice] - event.start, 0, static_cast<std::int64_t>(count)));
  if (skipped == count) return out;
  const std::uint32_t begin = skipped == 0 ? 0 : event.ends[skipped - 1];
  json ids = json::array();
  json ends = json::array();
  for (std::size_t i = skipped; i < count; ++i) {
    ids.push_back(event.ids[i]);
    ends.push_back(event.ends[i] - begin);
  }
  const std::int64_t index = event.start + static_cast<std::int64_t>(skipped);
  sent_[choice] = event.start + static_cast<std::int64_t>(count);
  const std::string_view bytes(event.bytes);
  const json data = {{"choice", event.choice},
                     {"index", index},
                     {"ids", std::move(ids)},
                     {"ends", std::move(ends)},
                     {"bytes", to_base64(bytes.substr(begin, event.ends[count - 1] - begin))}};
  append_event(out, format_event_id({info_.request_id, sent_}), data.dump());
  return out;
}

std::string TokenWriter::on_fin(const wire::RequestInfo& info) {
  info_ = info;
  std::string out = introduce();
  append_event_without_id(out, "end", request_json::state_json(info_));
  return out;
}

std::string TokenWriter::on_failure(const wire::Refusal& refusal) {
  std::string out;
  append_event_without_id(out, "error", error_body(refusal, ""));
  return out;
}

}  // namespace holdfast::gateway
