#include "control/gateway/responses/response_socket.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/gateway/common/endpoints.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/json_body.h"
#include "shared/base/clock.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kTurnsWaitingMax = 16;
constexpr int kNormalClosure = 1000;  // RFC 6455, 7.4.1
constexpr int kGoingAway = 1001;
constexpr int kPolicyViolation = 1008;
constexpr int kInternalError = 1011;

std::string text_of(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Returns {"type":"error","status":…,"error":{…}}.
std::string error_message(const Response& response) {
  const json body = try_parse_json<json>(response.body);
  const json error = body.is_object() ? body.value("error", json::object()) : json::object();
  return text_of({{"type", "error"}, {"status", response.status}, {"error", error}});
}

/// Returns the message for an event: in a stream an error event is flat, here it has the form of
/// every other error.
std::string event_message(std::string_view data) {
  constexpr std::string_view kError = R"({"type":"error")";
  if (!data.starts_with(kError)) return std::string(data);
  const json event = try_parse_json<json>(data);
  json error = {{"type", "server_error"}};
  for (const char* name : {"code", "message", "param"}) error[name] = event.value(name, json());
  const int status = http_status(errc_from_name(event.value("code", "")));
  return text_of({{"type", "error"}, {"status", status}, {"error", error}});
}

/// The exchange of one turn within the socket's.
class TurnExchange final : public Exchange, public std::enable_shared_from_this<TurnExchange> {
 public:
  TurnExchange(Context& context, ExchangePtr outer, MessageSocketPtr socket, Request request,
               std::function<void()> over)
      : context_(context),
        outer_(std::move(outer)),
        socket_(std::move(socket)),
        request_(std::move(request)),
        over_work_(std::move(over)) {}

  const Request& request() const override { return request_; }
  void admit(Principal principal) override { request_.from = std::move(principal); }
  void set_body(std::string body) override { request_.body = std::move(body); }

  void post(std::function<void()> work) override {
    outer_->post([self = shared_from_this(), work = std::move(work)] {
      try {
        work();
      } catch (const std::bad_alloc&) {  // the connection's other turns may have some
        self->respond(memory_response());
      }
    });
  }
  void after(std::chrono::milliseconds delay, std::function<void()> work) override {
    if (over_) return;
    outer_->after(delay, [self = shared_from_this(), work = std::move(work)] {
      if (!self->over_) work();
    });
  }

  void respond(Response response) override {
    if (over_) return;
    context_.http->answered({"POST", "/v1/responses"}, response.status);
    socket_->send(response.status >= 400 ? error_message(response) : std::move(response.body));
    finish();
  }
  void begin_stream(Response head, std::string) override {
    if (!over_) context_.http->answered({"POST", "/v1/responses"}, head.status);
  }
  /// Sends whole events, each with its data in one line, as messages.
  void write(std::string_view events) override {
    constexpr std::string_view kData = "data: ";
    while (!over_ && !events.empty()) {
      const std::string_view line = events.substr(0, events.find('\n'));
      events.remove_prefix(std::min(line.size() + 1, events.size()));
      if (line.starts_with(kData)) socket_->send(event_message(line.substr(kData.size())));
    }
  }
  void end() override {
    if (!over_) finish();
  }
  void abort() override {
    if (over_) return;
    socket_->close(kInternalError, "the response cannot be completed");
    finish();
  }

  std::size_t pending_bytes() const override { return over_ ? 0 : socket_->pending_bytes(); }
  void on_drain(std::size_t low, std::function<void()> work) override {
    if (!over_) socket_->on_drain(low, std::move(work));
  }
  void on_close(std::function<void()> work) override {
    if (over_) return work();
    close_work_ = std::move(work);
  }
  void on_stop(const std::function<void()>& work) override {
    if (!over_) stop_work_ = work;
  }
  bool closed() const override { return over_ && !ended_; }

  /// Tells the endpoint that the server ends before the response does.
  void stop() {
    if (auto work = std::exchange(stop_work_, nullptr)) work();
  }

  /// Tells the endpoint that the client is gone.
  void abandon() {
    if (std::exchange(over_, true)) return;
    over_work_ = stop_work_ = nullptr;
    if (auto work = std::exchange(close_work_, nullptr)) work();
  }

 private:
  void finish() {
    over_ = ended_ = true;
    close_work_ = stop_work_ = nullptr;
    if (auto work = std::exchange(over_work_, nullptr)) work();
  }

  Context& context_;
  ExchangePtr outer_;
  MessageSocketPtr socket_;
  Request request_;
  std::function<void()> over_work_, close_work_, stop_work_;
  bool over_ = false;
  bool ended_ = false;
};

/// A parsed message.
struct CreateEvent {
  json body;
  bool generates = true;
};

bool read_create(std::string_view text, CreateEvent* out, FieldError* error) {
  if (!parse_json_object(text, &out->body, error)) return false;
  json& body = out->body;
  const auto fail = [error](const char* name, const std::string& what) {
    *error = {"'" + std::string(name) + "' " + what, name};
    return false;
  };
  if (body.value("type", json()) != "response.create") {
    return fail("type", "must be \"response.create\"");
  }
  if (!body.value("stream_id", json()).is_null()) {
    return fail("stream_id",
                "is not taken: the responses of a connection come one after the other");
  }
  if (body.value("background", json()) == true) {
    return fail("background", "is not for a WebSocket: send it to POST /v1/responses");
  }
  const json generates = body.value("generate", json(true));
  if (!generates.is_boolean()) return fail("generate", "must be true or false");
  out->generates = generates.get<bool>();
  for (const char* name : {"type", "stream_id", "generate"}) body.erase(name);
  body["stream"] = true;
  return true;
}

/// One connection and its turns. Runs on the exchange's strand.
class ResponseSocket : public std::enable_shared_from_this<ResponseSocket> {
 public:
  ResponseSocket(Context& context, ExchangePtr exchange, TenantSlots::Slot slot)
      : context_(context),
        exchange_(std::move(exchange)),
        slot_(std::move(slot)),
        memory_(std::make_shared<TurnMemory>(context.remembered_bytes)) {}

  void start() {
    const auto self = shared_from_this();
    SocketEvents events;
    events.on_text = [self](std::string text) { self->on_text(std::move(text)); };
    events.on_stop = [self] { self->stop(false); };
    events.on_end = [self] { self->on_end(); };
    socket_ = exchange_->accept_socket(events, context_.params.body_bytes);
    if (socket_ == nullptr) {
      return exchange_->respond(error_response(501, "no WebSocket can be opened here"));
    }
    exchange_->on_stop([self] { self->stop_now(); });
    exchange_->after(context_.socket_time, [self] { self->stop(true); });
    socket_->read_next();
  }

 private:
  void on_text(std::string text) {
    if (active_ == nullptr) {
      begin(text);
    } else if (waiting_.size() >= kTurnsWaitingMax ||
               waiting_bytes_ + text.size() > context_.params.body_bytes) {
      wire::Refusal refusal;
      refusal.code = Errc::kQueueFull;
      refusal.message = "this connection has " + std::to_string(waiting_.size()) +
                        " responses waiting: wait for the end of one, or open another connection";
      socket_->send(error_message(error_response(refusal)));
    } else {
      waiting_bytes_ += text.size();
      waiting_.push_back(std::move(text));
    }
    read_on();
  }

  /// Reads the next message only if the client takes its own messages.
  void read_on() {
    if (socket_->pending_bytes() <= context_.hold_bytes) return socket_->read_next();
    socket_->on_drain(context_.resume_bytes,
                      [self = shared_from_this()] { self->socket_->read_next(); });
  }

  void begin(const std::string& text) {
    CreateEvent event;
    FieldError error;
    if (!read_create(text, &event, &error)) {
      return socket_->send(error_message(error_response(error)));
    }
    const auto self = shared_from_this();
    active_ = std::make_shared<TurnExchange>(context_, exchange_, socket_,
                                             request_of(text_of(event.body)),
                                             [self] { self->turn_over(); });
    judge(active_, {memory_, event.generates}, true);
  }

  /// Returns the request as if the message had come as a POST.
  Request request_of(std::string body) const {
    const Request& head = exchange_->request();
    Request request;
    request.method = "POST";
    request.path = head.path;
    // These headers belong to one request, and this one is the handshake.
    for (const Header& header : head.headers) {
      const bool one = equal_ignoring_case(header.first, "Idempotency-Key") ||
                       equal_ignoring_case(header.first, "Last-Event-ID");
      if (!one) request.headers.push_back(header);
    }
    request.body = std::move(body);
    request.secure = head.secure;
    request.ends = head.ends;
    request.arrived_us = system_clock().monotonic_us();
    request.from = head.from;
    return request;
  }

  /// Checks the key again: one that was revoked since the handshake lets nobody in. `first`: the
  /// keys may have to be read before.
  void judge(std::shared_ptr<TurnExchange> turn, const SocketTurn& socket_turn, bool first) {
    if (context_.access != nullptr) {
      const auto again = [self = shared_from_this(), turn, socket_turn] {
        turn->post([self, turn, socket_turn] { self->judge(turn, socket_turn, false); });
      };
      if (first && !context_.access->ready(turn->request(), again)) return;
      auto verdict = context_.access->check(turn->request());
      if (auto* refused = std::get_if<Response>(&verdict)) {
        const bool unknown = refused->status == 401;
        turn->respond(std::move(*refused));
        if (unknown) socket_->close(kPolicyViolation, "the key is not valid any more");
        return;
      }
      turn->admit(std::move(std::get<Principal>(verdict)));
    }
    if (!turn->closed()) answer_turn(context_, turn, socket_turn);
  }

  void turn_over() {
    active_ = nullptr;
    if (stops_) return leave();
    exchange_->post([self = shared_from_this()] { self->next(); });
  }

  void next() {
    while (active_ == nullptr && !waiting_.empty() && !over_) {
      const std::string text = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= text.size();
      begin(text);
    }
  }

  /// Stops, and tells the response that is under way.
  void stop_now() {
    stop(false);
    if (const auto active = active_) active->stop();
  }

  /// Stops after the response that is under way.
  void stop(bool time_over) {
    if (std::exchange(stops_, true)) return;
    time_over_ = time_over;
    if (active_ == nullptr) leave();
  }

  void leave() {
    waiting_.clear();
    if (!time_over_) return socket_->close(kGoingAway, "the server stops");
    const std::int64_t minutes =
        std::chrono::duration_cast<std::chrono::minutes>(context_.socket_time).count();
    Response response =
        error_response(400, "this WebSocket has been open for " + std::to_string(minutes) +
                                " minutes, its limit: open another one to go on");
    json body = try_parse_json<json>(response.body);
    body["error"]["code"] = "websocket_connection_limit_reached";
    response.body = text_of(body);
    socket_->send(error_message(response));
    socket_->close(kNormalClosure, "time is over");
  }

  void on_end() {
    over_ = true;
    waiting_.clear();
    slot_ = nullptr;
    if (const auto turn = std::exchange(active_, nullptr)) turn->abandon();
  }

  Context& context_;
  ExchangePtr exchange_;
  TenantSlots::Slot slot_;
  TurnMemoryPtr memory_;
  MessageSocketPtr socket_;
  std::shared_ptr<TurnExchange> active_;
  std::deque<std::string> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool stops_ = false;
  bool time_over_ = false;
  bool over_ = false;
};

/// Returns a slot if there is one now. One that is granted later is dropped.
TenantSlots::Slot slot_now(TenantSlots& slots, const std::string& tenant) {
  struct Offer {
    std::mutex mutex;
    TenantSlots::Slot slot;
    bool over = false;
  };
  const auto offer = std::make_shared<Offer>();
  slots.take(tenant, [offer](TenantSlots::Slot slot) {
    const std::lock_guard lock(offer->mutex);
    if (!offer->over) offer->slot = std::move(slot);
  });
  const std::lock_guard lock(offer->mutex);
  offer->over = true;
  return std::exchange(offer->slot, nullptr);
}

/// Returns the refusal of a request that is no handshake; it tells what one looks like.
std::optional<Response> refuse_handshake(const Request& request) {
  const std::string* upgrade = request.header("Upgrade");
  const std::string* version = request.header("Sec-WebSocket-Version");
  const bool asks = request.method == "GET" && request.http11 && upgrade != nullptr &&
                    equal_ignoring_case(*upgrade, "websocket") &&
                    request.header("Sec-WebSocket-Key") != nullptr;
  if (asks && version != nullptr && *version == "13") return std::nullopt;
  Response response = error_response(
      426, "GET " + request.path + " opens a WebSocket of version 13; a response's own path is " +
               request.path + "/ID, and a new one is made by POST");
  response.headers = {{"Upgrade", "websocket"}, {"Sec-WebSocket-Version", "13"}};
  return response;
}

}  // namespace

void get_response_socket(Context& context, const ExchangePtr& exchange, const Captures&) {
  if (auto refused = refuse_handshake(exchange->request())) {
    return exchange->respond(std::move(*refused));
  }
  auto slot = slot_now(*context.sockets, exchange->request().from.tenant());
  if (slot == nullptr) {
    wire::Refusal refusal;
    refusal.code = Errc::kRateLimited;
    refusal.message = "too many WebSockets are open: close one, or use POST";
    refusal.retry_after_ms = 1'000;
    return exchange->respond(error_response(refusal));
  }
  std::make_shared<ResponseSocket>(context, exchange, std::move(slot))->start();
}

}  // namespace holdfast::gateway
