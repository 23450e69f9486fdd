#include "shared/remote/generation.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "shared/base/json_text.h"
#include "shared/remote/sse.h"

namespace holdfast::remote {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* kAnyKey = "a client's or an operator's key";
constexpr auto kSilence = std::chrono::seconds(35);  // a gateway says something every 10 s
constexpr auto kPatience = std::chrono::minutes(10);
constexpr auto kAskPatience = std::chrono::seconds(10);
constexpr auto kPauseMin = std::chrono::milliseconds(100);
constexpr auto kPauseMax = std::chrono::milliseconds(2'000);
constexpr int kTooMany = 429, kServerFault = 500;

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The number of a choice; 0 without one. Throws nothing: it runs within libcurl.
int index_of(const json& choice) {
  const auto found = choice.find("index");
  return found != choice.end() && found->is_number_integer() ? found->get<int>() : 0;
}

/// The text of a choice of OpenAI's, in a part of a stream or in a whole answer.
std::string choice_text(const json& choice) {
  for (const char* part : {"delta", "message"}) {
    const auto found = choice.find(part);
    if (found == choice.end() || !found->is_object()) continue;
    return text_of(*found, "reasoning_content") + text_of(*found, "content");
  }
  return text_of(choice, "text");
}

/// The state of one call of generate().
class Stream {
 public:
  Stream(const Address& address, const StreamSource& source,
         const std::function<void(int, std::string_view)>& on_text,
         const std::function<bool()>& interrupted)
      : address_(address),
        source_(source),
        on_text_(on_text),
        interrupted_(interrupted),
        idempotency_key_(client::new_request_id()) {
    out_.request_id = source.request_id;
  }

  client::Answer<Generated> run() {
    while (!ended_) {
      if (auto failure = connect()) return *failure;
    }
    auto request = ask(address_, "/v1/requests/" + out_.request_id);
    if (auto* failure = std::get_if<client::Failure>(&request)) return *failure;
    out_.request = std::get<json>(request).dump();
    return std::move(out_);
  }

 private:
  HttpCall next_call() {
    HttpCall call;
    const bool makes = !source_.path.empty();
    call.method = makes ? "POST" : "GET";
    call.path = makes ? source_.path : "/v1/requests/" + source_.request_id + "/stream";
    call.body = source_.body;
    call.headers = {"Accept: text/event-stream"};
    if (makes) call.headers.push_back("Idempotency-Key: " + idempotency_key_);
    if (!last_id_.empty()) call.headers.push_back("Last-Event-ID: " + last_id_);
    call.timeout = std::chrono::milliseconds(0);
    call.silence = kSilence;
    call.stopping = [this] { return interrupted_() && !cancelled_; };
    return call;
  }

  /// Sends the request (again) and reads what comes. A failure if it cannot go on.
  std::optional<client::Failure> connect() {
    SseReader reader([this](const SseEvent& event) { return on_event(event); });
    HttpCall call = next_call();
    call.stream = [&](std::string_view bytes) { return reader.feed(bytes); };
    text_came_ = false;
    const auto reply = exchange(address_, call);
    if (failure_) return failure_;
    if (ended_) return std::nullopt;
    if (interrupted_() && !cancelled_) return cancel();
    if (!reply) return lost(failure_of(reply.error()), reply.error().code);
    if (reply->status == 200) return take_reply(*reply);
    return refused(*reply);
  }

  /// Handles an answer other than success. A request that is there outlives a gateway that is not.
  std::optional<client::Failure> refused(const HttpReply& reply) {
    client::Failure refusal = refusal_of(address_, reply, kAnyKey);
    const bool away = reply.status >= kServerFault || reply.status == kTooMany;
    if (away && (knows_request() || refusal.code == Errc::kDraining)) {
      return wait(std::move(refusal));
    }
    return refusal;
  }

  bool knows_request() const { return !out_.request_id.empty(); }

  /// Handles a connection that gave no whole answer.
  std::optional<client::Failure> lost(client::Failure failure, Errc code) {
    const bool may_come_back =
        code == Errc::kUnreachable || code == Errc::kIo || code == Errc::kTimeout;
    // Nothing was ever there: the address is wrong, or no server runs.
    if (!may_come_back || (code == Errc::kUnreachable && !answered_)) return failure;
    return wait(std::move(failure));
  }

  /// Waits before the next try; the failure once patience is over.
  std::optional<client::Failure> wait(client::Failure failure) {
    answered_ = true;
    if (SteadyClock::now() > last_answer_ + kPatience) {
      failure.code = Errc::kUnreachable;
      if (knows_request()) {
        failure.message +=
            "; the request goes on there: `holdfast requests tail " + out_.request_id + "`";
      }
      return failure;
    }
    std::this_thread::sleep_for(pause_);
    pause_ = std::min<std::chrono::milliseconds>(pause_ * 2, kPauseMax);
    return std::nullopt;
  }

  void note_answer() {
    answered_ = true;
    last_answer_ = SteadyClock::now();
    pause_ = kPauseMin;
  }

  /// Handles an answer that ended as HTTP requires: a document, or a stream without its last mark.
  std::optional<client::Failure> take_reply(const HttpReply& reply) {
    if (out_.request_id.empty()) out_.request_id = reply.header("x-request-id");
    if (out_.request_id.empty()) {
      client::Failure failure;
      failure.code = Errc::kUnreachable;
      failure.message = address_.url + ": the answer names no request; expected Holdfast's gateway";
      return failure;
    }
    if (reply.streamed && text_came_) return std::nullopt;  // goes on at once
    if (reply.streamed) return end_or_wait();
    note_answer();
    out_.document = reply.body;
    take_choices(try_parse_json<json>(reply.body, kBodyLimits));
    ended_ = true;
    return std::nullopt;
  }

  /// A stream that brought no text: it is at its end, or the gateway was stopped.
  std::optional<client::Failure> end_or_wait() {
    const auto request = ask(address_, "/v1/requests/" + out_.request_id);
    if (const auto* document = std::get_if<json>(&request)) {
      const std::string state = text_of(*document, "state");
      ended_ = state != "queued" && state != "running" && state != "quarantined";
      if (ended_) return std::nullopt;
    }
    client::Failure failure;
    failure.message =
        address_.url + ": the stream of request " + out_.request_id + " brings nothing";
    return wait(std::move(failure));
  }

  std::optional<client::Failure> cancel() {
    client::Failure failure;
    failure.code = Errc::kCancelled;
    failure.message =
        "interrupted before the server had answered; `holdfast requests list` shows "
        "whether it accepted the request";
    if (!knows_request()) return failure;
    HttpCall call;
    call.method = "DELETE";
    call.path = "/v1/requests/" + out_.request_id;
    const auto reply = exchange(address_, call);
    cancelled_ = true;
    if (!reply) return failure_of(reply.error());
    return std::nullopt;  // the stream tells the end
  }

  bool on_event(const SseEvent& event) {
    note_answer();
    if (!event.id.empty()) {
      last_id_ = event.id;
      out_.request_id = event.id.substr(0, event.id.rfind('.'));
    }
    ended_ = event.data == "[DONE]" || event.type == "message_stop";
    if (ended_) return false;
    const json data = try_parse_json<json>(event.data, kBodyLimits);
    if (!data.is_object()) return true;
    if (data.contains("error")) return on_error(data);
    take_choices(data);
    if (text_of(data, "type") == "content_block_delta" && data.contains("delta")) {
      take_text(0, text_of(data["delta"], "thinking") + text_of(data["delta"], "text"));
    }
    return !failure_;
  }

  /// Takes an error inside of the stream. One of a server that stops is no end of the request, and
  /// neither is one of a choice: how it ended is read then.
  bool on_error(const json& data) {
    HttpReply reply;
    reply.body = data.dump(-1, ' ', false, json::error_handler_t::replace);
    client::Failure failure = refusal_of(address_, reply, kAnyKey);
    if (failure.code == Errc::kDraining || data["error"].contains("choice")) return true;
    failure_ = std::move(failure);
    return false;
  }

  void take_choices(const json& data) {
    if (!data.is_object() || !data.contains("choices") || !data["choices"].is_array()) return;
    for (const json& choice : data["choices"]) {
      if (!choice.is_object()) continue;
      take_text(index_of(choice), choice_text(choice));
    }
  }

  void take_text(int choice, const std::string& text) {
    out_.choices[choice] += text;
    if (text.empty()) return;
    bytes_ += text.size();
    if (bytes_ > kAnswerBytesMax) return too_long();
    text_came_ = true;
    if (on_text_) on_text_(choice, text);
  }

  void too_long() {
    failure_.emplace();
    failure_->code = Errc::kInvalidRequest;
    failure_->message =
        address_.url + ": the text has more than " + std::to_string(kAnswerBytesMax) + " bytes";
  }

  const Address& address_;
  const StreamSource& source_;
  const std::function<void(int, std::string_view)>& on_text_;
  const std::function<bool()>& interrupted_;
  const std::string idempotency_key_;
  Generated out_;
  std::string last_id_;
  std::optional<client::Failure> failure_;
  std::size_t bytes_ = 0;  // of all text
  bool ended_ = false;
  bool cancelled_ = false;
  bool answered_ = false;   // a server was there
  bool text_came_ = false;  // over this connection
  SteadyClock::time_point last_answer_ = SteadyClock::now();
  std::chrono::milliseconds pause_ = kPauseMin;
};

}  // namespace

client::Answer<Generated> generate(const Address& address, const StreamSource& source,
                                   const std::function<void(int, std::string_view)>& on_text,
                                   const std::function<bool()>& interrupted) {
  return Stream(address, source, on_text, interrupted).run();
}

client::Answer<json> ask(const Address& address, const std::string& path, const std::string& body) {
  HttpCall call;
  call.method = body.empty() ? "GET" : "POST";
  call.path = path;
  call.body = body;
  const auto until = SteadyClock::now() + kAskPatience;
  for (;;) {
    const auto reply = exchange(address, call);
    const bool away = reply ? reply->status >= kServerFault : reply.error().code == Errc::kIo;
    if (away && SteadyClock::now() < until) {
      std::this_thread::sleep_for(kPauseMin);
      continue;
    }
    if (!reply) return failure_of(reply.error());
    if (reply->status / 100 != 2) return refusal_of(address, *reply, kAnyKey);
    json document = try_parse_json<json>(reply->body);
    if (!document.is_discarded()) return document;
    client::Failure failure;
    failure.code = Errc::kUnreachable;
    failure.message = address.url + path + ": the answer is not JSON; expected Holdfast's gateway";
    return failure;
  }
}

}  // namespace holdfast::remote
