// A server elsewhere, over HTTP.
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "shared/base/json_text.h"
#include "shared/remote/http.h"
#include "shared/remote/operator.h"
#include "shared/request_json/request_json.h"
#include "shared/sdk/remote_stream.h"
#include "shared/sdk/server.h"

namespace holdfast::sdk {
namespace {

using client::Answer;
using client::Failure;
using json = nlohmann::ordered_json;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(30);
constexpr auto kOperatorPatience = std::chrono::minutes(2);
constexpr auto kPause = std::chrono::milliseconds(100);

Failure make_failure(Errc code, std::string message) {
  Failure failure;
  failure.code = code;
  failure.message = std::move(message);
  return failure;
}

/// Returns the members of `from` that have these names and are not null.
template <std::size_t N>
json members(const json& from, const char* const (&names)[N]) {
  json out = json::object();
  for (const char* name : names) {
    const auto found = from.find(name);
    if (found != from.end() && !found->is_null()) out[name] = *found;
  }
  return out;
}

/// Returns the state of a request as request_json::state_json() has it.
json state_of(const json& request) {
  json out = members(request, {"id", "state", "model", "prompt_tokens", "max_tokens", "seed",
                               "created_ms", "finished_ms", "queue_position", "eta_ms"});
  out["choices"] = json::array();
  for (const json& choice : request.value("choices", json::array())) {
    if (!choice.is_object()) continue;
    out["choices"].push_back(members(choice, {"index", "tokens", "finish_reason", "error"}));
  }
  return out;
}

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

class RemoteServer final : public Server {
 public:
  explicit RemoteServer(remote::Address address) : address_(std::move(address)) {}

  ~RemoteServer() override {
    for (const auto& [id, stream] : streams_) stream->close();  // all at once, then each is awaited
  }

  Answer<std::string> submit(std::string_view request) override {
    // Faults of the request are told without a server; and only one with a key may be sent twice.
    const auto parsed = request_json::parse_request(request);
    if (!parsed) return make_failure(parsed.error().code, parsed.error().what);
    remote::HttpCall call;
    call.method = "POST";
    call.path = "/v1/requests";
    call.body = request;
    if (parsed->submit.idem_key.empty()) {
      call.headers = {"Idempotency-Key: " + client::new_request_id()};
    }
    return ask(call, [](const json& accepted) { return accepted.value("id", ""); });
  }

  Answer<std::string> status(const std::string& id) override { return about("GET", id); }
  Answer<std::string> cancel(const std::string& id) override { return about("DELETE", id); }

  Answer<std::string> models() override {
    remote::HttpCall call;
    call.path = "/v1/models";
    return ask(call, [](const json& answer) {
      json list = json::array();
      for (const json& model : answer.value("data", json::array())) {
        if (!model.is_object()) continue;
        json one = {{"name", model.value("id", "")}};
        one.update(members(model, {"state", "context", "architecture", "chat"}));
        const json can = model.value("capabilities", json::object());
        one["encoder"] = can.is_object() && !can.value("completion", true);
        one.update(members(model, {"reason", "alias_of"}));
        list.push_back(std::move(one));
      }
      return dump(list);
    });
  }

  Answer<std::string> operate(const std::string& verb, const std::string& args) override {
    return remote::operate(address_, verb, args, kOperatorPatience);
  }

  Result<void> stop() override {
    return Error{Errc::kUnsupported,
                 address_.url + " is on another machine: it is stopped there, not over HTTP"};
  }

  client::StreamId open_stream(const std::string& id, client::StreamHandler handler) override {
    auto opened = std::make_shared<RemoteStream>(address_, id, std::move(handler));
    Streams over;  // their threads are awaited without the lock, which a handler may want
    const std::lock_guard lock(mutex_);
    for (auto one = streams_.begin(); one != streams_.end();) {
      const auto at = one++;
      if (at->second->over()) over.insert(streams_.extract(at));
    }
    streams_[++last_stream_] = std::move(opened);
    return last_stream_;
  }

  void hold_stream(client::StreamId stream, bool hold) override {
    if (const auto found = find(stream)) found->hold(hold);
  }

  void close_stream(client::StreamId stream) override {
    if (const auto found = find(stream)) found->close();
  }

 private:
  using Streams = std::map<client::StreamId, std::shared_ptr<RemoteStream>>;

  std::shared_ptr<RemoteStream> find(client::StreamId stream) {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(stream);
    return found == streams_.end() ? nullptr : found->second;
  }

  Answer<std::string> about(const char* method, const std::string& id) {
    remote::HttpCall call;
    call.method = method;
    call.path = "/v1/requests/" + id;
    return ask(call, [](const json& request) { return dump(state_of(request)); });
  }

  /// Sends a call that may be sent twice, until the server has answered it. `read` makes the result
  /// of the document.
  template <class Read>
  Answer<std::string> ask(const remote::HttpCall& call, Read read) {
    const auto until = SteadyClock::now() + kPatience;
    for (;;) {
      const auto reply = remote::exchange(address_, call);
      if (reply && reply->status / 100 == 2) {
        const json document = try_parse_json<json>(reply->body, kBodyLimits);
        if (document.is_object()) return read(document);
        return make_failure(Errc::kUnreachable, address_.url + call.path +
                                                    ": the answer is not JSON; expected "
                                                    "Holdfast's gateway");
      }
      Failure failure = reply ? remote::refusal_of(address_, *reply, "a client's key")
                              : remote::failure_of(reply.error());
      const bool away = failure.code == Errc::kUnreachable || failure.code == Errc::kDraining;
      if (!away || SteadyClock::now() > until) return failure;
      std::this_thread::sleep_for(kPause);
    }
  }

  const remote::Address address_;
  std::mutex mutex_;
  client::StreamId last_stream_ = 0;
  Streams streams_;
};

}  // namespace

std::unique_ptr<Server> open_remote(remote::Address address) {
  return std::make_unique<RemoteServer>(std::move(address));
}

}  // namespace holdfast::sdk
