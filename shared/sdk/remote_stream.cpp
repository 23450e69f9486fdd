#include "shared/sdk/remote_stream.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "shared/base/base64.h"
#include "shared/base/json_text.h"
#include "shared/remote/operator.h"

namespace holdfast::sdk {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kSilence = std::chrono::seconds(35);   // a gateway says something every 10 s
constexpr auto kPatience = std::chrono::minutes(10);  // without any answer
constexpr auto kPauseMin = std::chrono::milliseconds(100);
constexpr auto kPauseMax = std::chrono::milliseconds(2'000);
constexpr std::size_t kChoicesMax = 65'536;
constexpr int kOk = 200, kTooMany = 429, kServerFault = 500;

std::int64_t number_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

wire::FinishReason finish_of(const std::string& name) {
  using wire::FinishReason;
  for (const auto reason : {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled,
                            FinishReason::kError, FinishReason::kExpired}) {
    if (wire::finish_name(reason) == name) return reason;
  }
  return FinishReason::kNone;
}

/// Reads a list of whole numbers of a range; nullopt for anything else.
template <class T>
std::optional<std::vector<T>> numbers_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  std::vector<T> out;
  for (const json& one : *found) {
    if (!one.is_number_integer() || one < 0 || one > std::numeric_limits<T>::max()) {
      return std::nullopt;
    }
    out.push_back(one.get<T>());
  }
  return out;
}

/// Reads tokens of a stream; nullopt for what a gateway never sends.
std::optional<wire::Event> tokens_of(const json& data) {
  wire::Event event;
  const std::int64_t choice = number_of(data, "choice");
  event.start = number_of(data, "index");
  auto ids = numbers_of<wire::TokenId>(data, "ids");
  auto ends = numbers_of<std::uint32_t>(data, "ends");
  auto bytes = from_base64(text_of(data, "bytes"));
  const bool whole = choice >= 0 && choice < static_cast<std::int64_t>(kChoicesMax) &&
                     event.start >= 0 && ids && ends && bytes && ids->size() == ends->size() &&
                     std::ranges::is_sorted(*ends) &&
                     (ends->empty() || ends->back() <= bytes->size());
  if (!whole) return std::nullopt;
  event.choice = static_cast<std::int32_t>(choice);
  event.ids = std::move(*ids);
  event.ends = std::move(*ends);
  event.bytes = std::move(*bytes);
  return event;
}

/// Reads the parts of a state that a reader wants.
wire::RequestInfo info_of(const json& state) {
  wire::RequestInfo info;
  info.request_id = text_of(state, "id");
  for (const json& stop : state.value("stops", json::array())) {
    if (stop.is_string()) info.stops.push_back(stop.get<std::string>());
  }
  for (const json& one : state.value("choices", json::array())) {
    const std::int64_t index = one.is_object() ? number_of(one, "index") : -1;
    if (index < 0 || index >= static_cast<std::int64_t>(kChoicesMax)) continue;
    wire::ChoiceInfo choice;
    choice.choice = static_cast<std::int32_t>(index);
    choice.next_index = number_of(one, "tokens");
    choice.finish = finish_of(text_of(one, "finish_reason"));
    info.choices.push_back(std::move(choice));
  }
  return info;
}

}  // namespace

RemoteStream::RemoteStream(const remote::Address& address, std::string id,
                           client::StreamHandler handler)
    : address_(address),
      id_(std::move(id)),
      handler_(std::move(handler)),
      last_answer_(SteadyClock::now()),
      pause_(kPauseMin),
      thread_([this] { run(); }) {}

RemoteStream::~RemoteStream() {
  close();
  thread_.join();
}

void RemoteStream::hold(bool hold) {
  const std::lock_guard lock(mutex_);
  held_ = hold;
  changed_.notify_all();
}

void RemoteStream::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void RemoteStream::run() {
  while (!over_ && !closed_) connect();
  over_ = true;
}

std::string RemoteStream::path() const {
  std::string out = "/v1/requests/" + id_ + "/stream?form=tokens";
  if (std::ranges::all_of(next_, [](std::int64_t next) { return next == 0; })) return out;
  for (std::size_t i = 0; i < next_.size(); ++i) {
    out += (i == 0 ? "&from=" : ",") + std::to_string(next_[i]);
  }
  return out;
}

/// Opens the stream (again) and reads what comes.
void RemoteStream::connect() {
  remote::SseReader reader([this](const remote::SseEvent& event) { return on_event(event); });
  remote::HttpCall call;
  call.path = path();
  call.headers = {"Accept: text/event-stream"};
  call.timeout = std::chrono::milliseconds(0);
  call.silence = kSilence;
  call.stopping = [this] { return closed_.load(); };
  call.stream = [&](std::string_view bytes) { return reader.feed(bytes); };
  const auto reply = remote::exchange(address_, call);
  if (over_ || closed_) return;
  if (!reply) return wait_for_server(remote::failure_of(reply.error()));
  on_reply(*reply);
}

/// Handles the end of an exchange that was not the stream's.
void RemoteStream::on_reply(const remote::HttpReply& reply) {
  if (reply.status == kOk && reply.streamed) {
    client::Failure failure;
    failure.message = address_.url + ": the stream of request " + id_ + " was cut";
    return wait_for_server(std::move(failure));
  }
  client::Failure refusal = remote::refusal_of(address_, reply, "a client's or an operator's key");
  if (reply.status >= kServerFault || reply.status == kTooMany) {
    return wait_for_server(std::move(refusal));
  }
  end_with(refusal);
}

void RemoteStream::end_with(const client::Failure& failure) {
  handler_.on_failure(failure);
  over_ = true;
}

/// Waits before the next try; ends the stream once there was no answer for too long.
void RemoteStream::wait_for_server(client::Failure failure) {
  if (SteadyClock::now() > last_answer_ + kPatience) {
    failure.code = Errc::kUnreachable;
    return end_with(failure);
  }
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, pause_, [this] { return closed_.load(); });
  pause_ = std::min<std::chrono::milliseconds>(pause_ * 2, kPauseMax);
}

/// Takes an event. False: the connection ends.
bool RemoteStream::on_event(const remote::SseEvent& event) {
  last_answer_ = SteadyClock::now();
  pause_ = kPauseMin;
  const json data = try_parse_json<json>(event.data, kBodyLimits);
  if (!data.is_object() || data.contains("error")) return false;  // the server ends
  if (event.type == "request") {
    on_state(data);
  } else if (event.type == "end") {
    handler_.on_fin(info_of(data));
    over_ = true;  // after the handler: whoever finds it over need not wait for the thread
  } else if (!on_tokens(data)) {
    return false;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !held_ || closed_; });
  return !over_ && !closed_;
}

void RemoteStream::on_state(const json& state) {
  info_ = info_of(state);
  next_.resize(std::max(next_.size(), info_.choices.size()), 0);
  handler_.on_attached(info_);
}

/// Takes tokens. False for some that do not follow those before: the connection is opened again.
bool RemoteStream::on_tokens(const json& data) {
  auto event = tokens_of(data);
  if (!event) return false;
  const auto choice = static_cast<std::size_t>(event->choice);
  if (next_.size() <= choice) next_.resize(choice + 1, 0);
  if (event->start != next_[choice]) return false;
  next_[choice] += static_cast<std::int64_t>(event->ids.size());
  event->request_id = id_;
  handler_.on_event(*event);
  return true;
}

}  // namespace holdfast::sdk
