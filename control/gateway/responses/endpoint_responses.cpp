// /v1/responses: a turn of a conversation. Its input is stored under the response's id, which is
// also the request's. Its output is made of the request's tokens, and stored when it has ended. So
// a response survives the death of any process, and later turns find it.

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "control/gateway/common/endpoints.h"
#include "control/gateway/common/model_binding.h"
#include "control/gateway/common/object_endpoints.h"
#include "control/gateway/common/post_headers.h"
#include "control/gateway/common/webhooks.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/http/sse.h"
#include "control/gateway/responses/conversation.h"
#include "control/gateway/responses/response_socket.h"
#include "control/gateway/responses/response_stream.h"
#include "shared/base/clock.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"
#include "shared/client/webhook.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

/// One POST until its request is submitted.
struct Turn {
  Context& context;
  ExchangePtr exchange;
  std::string id;
  std::int64_t id_version = 0;
  std::string hash;
  ResponsesRequest request;
  PostHeaders headers;
  SocketTurn socket;
  Conversation conversation;
  Generation generation;
  bool made = false;  // this POST made its object
  const Principal& from() const { return exchange->request().from; }
};
using TurnPtr = std::shared_ptr<Turn>;

/// Shows one request as a response, whole or as a stream.
class ResponseAttachment : public std::enable_shared_from_this<ResponseAttachment> {
 public:
  /// `leaves_for_good`: a client that leaves does not come back.
  ResponseAttachment(Context& context, ExchangePtr exchange, const wire::RequestInfo& info,
                     std::string echo, bool store, bool leaves_for_good = false)
      : context_(context),
        exchange_(std::move(exchange)),
        id_(info.request_id),
        echo_(std::move(echo)),
        owner_(exchange_->request().from),
        store_(store),
        leaves_for_good_(leaves_for_good) {}

  /// Runs `work` with the output of a turn that succeeded, before it is shown.
  void on_output(std::function<void(const json&)> work) { output_work_ = std::move(work); }

  void whole(const wire::RequestInfo& info, std::vector<Header> headers) {
    headers_ = std::move(headers);
    begin(info, -1);
  }
  void stream(const wire::RequestInfo& info, std::int64_t after, std::vector<Header> headers) {
    streams_ = true;
    Response head;
    head.content_type = "text/event-stream; charset=utf-8";
    head.headers = std::move(headers);
    head.headers.emplace_back("X-Request-Id", id_);
    head.headers.emplace_back("Cache-Control", "no-cache");
    head.headers.emplace_back("X-Accel-Buffering", "no");
    exchange_->begin_stream(std::move(head), std::string(kKeepAliveComment));
    begin(info, after);
  }

 private:
  void begin(const wire::RequestInfo& info, std::int64_t after) {
    if (exchange_->closed()) return;
    stream_.emplace(decode_shape(info.meta), info, echo_, after);
    const std::string opening = stream_->open();
    if (streams_) exchange_->write(opening);
    const auto self = shared_from_this();
    exchange_->on_close([self] { self->leave(); });
    exchange_->on_stop([self] { self->stop(); });
    client::StreamHandler handler;
    handler.on_event = [self](const wire::Event& event) {
      self->exchange_->post([self, event] { self->on_event(event); });
    };
    handler.on_fin = [self](const wire::RequestInfo& end) {
      self->exchange_->post([self, end] { self->on_fin(end); });
    };
    handler.on_failure = [self](const client::Failure& failure) {
      self->exchange_->post([self, failure] { self->on_failure(failure); });
    };
    sdk_stream_ = context_.client.open_stream(owner_, id_, {}, std::move(handler));
    open_ = true;
  }

  void on_event(const wire::Event& event) {
    if (done_) return;
    const std::string out = stream_->on_event(event);
    if (!streams_) return;
    exchange_->write(out);
    if (held_ || exchange_->pending_bytes() <= context_.hold_bytes) return;
    held_ = true;
    context_.client.hold_stream(sdk_stream_, true);
    exchange_->on_drain(context_.resume_bytes, [self = shared_from_this()] {
      self->held_ = false;
      if (!self->done_) self->context_.client.hold_stream(self->sdk_stream_, false);
    });
  }

  void on_fin(const wire::RequestInfo& info) {
    if (std::exchange(done_, true)) return;
    close_stream();
    const std::string out = stream_->on_fin(info);
    const json document =
        response_json(info, echo_, output_items(id_, stream_->parts()), stream_->parts().usage);
    if (store_) store_final_response(context_, owner_, id_, document);
    const bool succeeded = info.state == wire::RequestState::kSucceeded;
    if (succeeded && output_work_) output_work_(document["output"]);
    if (streams_) {
      exchange_->write(out);
      return exchange_->end();
    }
    Response response = json_response(document);
    response.headers = std::move(headers_);
    response.headers.emplace_back("X-Request-Id", id_);
    exchange_->respond(std::move(response));
  }

  void on_failure(const client::Failure& failure) {
    if (std::exchange(done_, true)) return;
    close_stream();
    if (!streams_) return exchange_->respond(error_response(failure));
    exchange_->write(stream_->on_failure(failure));
    exchange_->end();
  }

  void leave() {
    done_ = true;
    close_stream(leaves_for_good_);
  }
  /// Tells the client how it gets the rest, when the gateway ends before the answer does.
  void stop() {
    if (std::exchange(done_, true)) return;
    close_stream();
    const wire::Refusal why = stopping(id_);
    if (!streams_) return exchange_->respond(error_response(why));
    std::string out;
    json error = {{"type", "error"}};
    error.update(stream_error(why));
    append_event_without_id(out, "error", error.dump());
    exchange_->write(out);
    exchange_->end();
  }
  void close_stream(bool for_good = false) {
    if (std::exchange(open_, false)) context_.client.close_stream(sdk_stream_, for_good);
  }

  Context& context_;
  ExchangePtr exchange_;
  const std::string id_, echo_;
  const client::Principal owner_;
  const bool store_;
  const bool leaves_for_good_;
  std::function<void(const json&)> output_work_;
  std::vector<Header> headers_;
  std::optional<ResponseStream> stream_;
  client::StreamId sdk_stream_ = 0;
  bool streams_ = false;
  bool open_ = false;
  bool held_ = false;
  bool done_ = false;
};

/// Remembers the turn for later ones on the same connection.
void remember(const TurnPtr& turn, const json& output) {
  turn->socket.memory->add({turn->id, turn->request.previous, turn->conversation.items,
                            output.dump(-1, ' ', false, json::error_handler_t::replace)});
}

/// Ends a turn that only adds to the conversation: nothing is generated.
void answer_empty(const TurnPtr& turn) {
  remember(turn, json::array());
  wire::RequestInfo info;
  info.request_id = turn->id;
  info.model = turn->generation.submit.model;
  info.created_ms = system_clock().wall_ms();
  info.state = wire::RequestState::kSucceeded;
  ResponseStream stream(turn->generation.shape, info, turn->request.echo, -1);
  turn->exchange->begin_stream({}, "");
  turn->exchange->write(stream.open());
  turn->exchange->write(stream.on_fin(info));
  turn->exchange->end();
}

/// Answers with the current state, without waiting for the end.
void show_now(const TurnPtr& turn, const wire::RequestInfo& info, std::vector<Header> headers) {
  Response response = json_response(response_json(info, turn->request.echo, json::array()));
  response.headers = std::move(headers);
  response.headers.emplace_back("X-Request-Id", info.request_id);
  turn->exchange->respond(std::move(response));
}

/// Cancels a response whose client left before it was accepted, if its headers want that. No client
/// is attached, so no disconnect would be noticed.
void cancel_unattended(const TurnPtr& turn, const wire::Accepted& accepted) {
  const bool ends = turn->headers.on_disconnect == wire::OnDisconnect::kCancel;
  if (!ends || turn->request.background || accepted.duplicate) return;
  turn->context.client.cancel_async(turn->from(), accepted.info.request_id,
                                    [](const client::Answer<wire::RequestInfo>&) {});
}

/// The event that the client saw last; -1 if it saw none.
std::int64_t last_sent(const PostHeaders& headers) {
  return headers.resume && !headers.resume->sent.empty() ? headers.resume->sent[0] : -1;
}

void on_accepted(const TurnPtr& turn, const wire::Accepted& accepted) {
  const bool background = turn->request.background;
  if (turn->exchange->closed()) return cancel_unattended(turn, accepted);
  std::vector<Header> headers =
      answer_headers(turn->generation.ignored, accepted.duplicate, accepted.key, accepted.notes);
  const bool for_good = !background && leaves_for_good(turn->headers, turn->request.stream);
  const auto attachment =
      std::make_shared<ResponseAttachment>(turn->context, turn->exchange, accepted.info,
                                           turn->request.echo, turn->request.store, for_good);
  if (turn->socket.memory != nullptr) {
    attachment->on_output([turn](const json& output) { remember(turn, output); });
  }
  if (turn->request.stream) {
    return attachment->stream(accepted.info, last_sent(turn->headers), std::move(headers));
  }
  if (background) return show_now(turn, accepted.info, std::move(headers));
  attachment->whole(accepted.info, std::move(headers));
}

/// Removes the objects of a request that was refused.
void forget(const TurnPtr& turn) {
  const auto done = [](const client::Answer<bool>&) {};
  turn->context.object_store->remove(turn->from(), kResponseKind, turn->id, done);
  if (turn->request.background) {
    turn->context.object_store->remove(turn->from(), kWatchKind, turn->id, done);
  }
}

void submit(const TurnPtr& turn) {
  wire::Submit message = std::move(turn->generation.submit);
  message.request_id = turn->id;
  put_limits(turn->exchange->request(), &message, &turn->generation.ignored);
  message.body_hash = turn->hash;
  message.on_disconnect =
      turn->request.background ? wire::OnDisconnect::kContinue : turn->headers.on_disconnect;
  turn->generation.shape.client_id = client_request_id(turn->exchange->request());
  message.meta = encode_shape(turn->generation.shape);
  turn->context.client.submit_async(
      turn->from(), std::move(message), [turn](client::Answer<wire::Accepted> answer) {
        turn->exchange->post([turn, answer = std::move(answer)] {
          if (const auto* failure = std::get_if<client::Failure>(&answer)) {
            // Without an answer the daemon may have accepted it all the same.
            const bool unknown =
                failure->code == Errc::kUnreachable || failure->code == Errc::kTimeout;
            if (turn->made && !unknown) forget(turn);
            return turn->exchange->respond(error_response(*failure));
          }
          on_accepted(turn, std::get<wire::Accepted>(answer));
        });
      });
}

/// Finds how the model writes reasoning and calls, then submits.
void take_up(const TurnPtr& turn) {
  find_output(*turn->context.outputs, turn->context.client, turn->generation.submit.model,
              on_strand<std::string>(turn->exchange, [turn](const std::string& output) {
                turn->generation.shape.output = output;
                bind_to_model(&turn->generation);
                submit(turn);
              }));
}

/// Stores, before the response can end, that a webhook wants to be told of its end.
void watch(const TurnPtr& turn) {
  if (!turn->request.background) return take_up(turn);
  ObjectListQuery query;
  query.kind = client::kWebhookKind;
  query.limit = 1000;
  // No tenant may read the list of webhooks, so the gateway asks in its own name.
  turn->context.object_store->list(
      client::AllTenants::local(), query,
      on_strand<ObjectStore::Page>(turn->exchange, [turn](const ObjectStore::Page& page) {
        // Where there are more targets than a page has, one of them may want it.
        if (!page.more && !any_wants_responses(targets_of(page.objects), turn->from().tenant())) {
          return take_up(turn);
        }
        ObjectChange change;
        change.kind = kWatchKind;
        change.id = turn->id;
        change.version = 0;
        change.body = "{}";
        turn->context.object_store->put(
            turn->from(), change, [turn](client::Answer<ObjectStore::Put> answer) {
              turn->exchange->post([turn, answer = std::move(answer)] {
                const auto* failure = std::get_if<client::Failure>(&answer);
                if (failure == nullptr || failure->code == Errc::kConflict) return take_up(turn);
                turn->exchange->respond(error_response(*failure));
              });
            });
      }));
}

/// Continues a POST that came before: perhaps only its end is left.
void meet_again(const TurnPtr& turn) {
  turn->context.object_store->get(
      turn->from(), kResponseKind, turn->id,
      on_strand<ObjectStore::Found>(turn->exchange, [turn](const ObjectStore::Found& found) {
        const json body = found ? try_parse_json<json>(found->body) : json();
        if (body.is_object() && body.value("hash", "") != turn->hash) {
          return turn->exchange->respond(other_body(turn->id));
        }
        const bool over = body.is_object() && body.contains("final") && !turn->request.stream;
        if (over) return turn->exchange->respond(json_response(body["final"]));
        watch(turn);
      }));
}

/// Builds the request, once the whole conversation has been gathered.
void compose(const TurnPtr& turn) {
  std::vector<std::string> turns = std::move(turn->conversation.before);
  turns.push_back(turn->conversation.items);
  json body;
  FieldError error;
  if (!chat_body(turn->request, turns, &body, &error) ||
      !parse_chat(body, turn->context.params, &turn->generation, &error)) {
    if (error.param == "messages") error.param = "input";
    return turn->exchange->respond(error_response(error));
  }
  turn->generation.shape.body_hash = turn->hash;
  turn->generation.shape.stream = turn->request.stream;
  if (!turn->socket.generates) return answer_empty(turn);
  if (!turn->request.store) return take_up(turn);
  ObjectChange change;
  change.kind = kResponseKind;
  change.id = turn->id;
  change.version = 0;
  json stored = {{"hash", turn->hash},
                 {"previous", turn->request.previous},
                 {"items", try_parse_json<json>(turn->conversation.items)},
                 {"echo", try_parse_json<json>(turn->request.echo)}};
  if (turn->id_version > 0) stored["id_version"] = turn->id_version;
  change.body = stored.dump(-1, ' ', false, json::error_handler_t::replace);
  turn->context.object_store->put(turn->from(), change,
                                  [turn](client::Answer<ObjectStore::Put> answer) {
                                    turn->exchange->post([turn, answer = std::move(answer)] {
                                      const auto* failure = std::get_if<client::Failure>(&answer);
                                      turn->made = failure == nullptr;
                                      if (turn->made) return watch(turn);
                                      if (failure->code != Errc::kConflict) {
                                        return turn->exchange->respond(error_response(*failure));
                                      }
                                      meet_again(turn);
                                    });
                                  });
}

/// Answers for a stored response: with its end if that is stored too, else with its request.
void respond_with_stored(Context& context, const ExchangePtr& exchange, const StoredObject& stored,
                         std::function<void(const json& body, const wire::RequestInfo&)> running) {
  const json body = try_parse_json<json>(stored.body);
  if (!body.is_object()) return exchange->respond(no_such(kResponseKind, stored.id));
  const bool streams = exchange->request().query_value("stream") != nullptr &&
                       *exchange->request().query_value("stream") == "true";
  if (body.contains("final") && !streams) return exchange->respond(json_response(body["final"]));
  context.client.status_async(
      exchange->request().from, stored.id,
      on_strand<wire::RequestInfo>(
          exchange, [body, running](const wire::RequestInfo& info) { running(body, info); }));
}

/// Finds the response that Last-Event-ID names, for a client that reconnects without a key. Nothing
/// is made under an id that a client chose.
void find_again(const TurnPtr& turn) {
  turn->id = turn->headers.resume->request_id;
  turn->context.client.status_async(
      turn->from(), turn->id,
      on_strand<wire::RequestInfo>(turn->exchange, [turn](const wire::RequestInfo& info) {
        if (decode_shape(info.meta).body_hash != turn->hash) {
          return turn->exchange->respond(resume_mismatch("Last-Event-ID names response " +
                                                         turn->id + ", which had another body"));
        }
        wire::Accepted accepted;
        accepted.duplicate = true;
        accepted.info = info;
        on_accepted(turn, accepted);
      }));
}

bool read_after(const Request& request, const std::string& id, std::int64_t* after) {
  const std::string* text = request.query_value("starting_after");
  std::string last;
  if (text == nullptr) {
    const std::string* header = request.header("Last-Event-ID");
    if (header == nullptr || !header->starts_with(id + ".")) return true;
    last = header->substr(id.size() + 1);
    text = &last;
  }
  const auto r = std::from_chars(text->data(), text->data() + text->size(), *after);
  return r.ec == std::errc() && r.ptr == text->data() + text->size() && *after >= -1;
}

}  // namespace

void post_responses(Context& context, const ExchangePtr& exchange, const Captures&) {
  answer_turn(context, exchange, {});
}

void answer_turn(Context& context, const ExchangePtr& exchange, const SocketTurn& socket) {
  const Request& request = exchange->request();
  auto turn = std::make_shared<Turn>(Turn{context, exchange, {}, 0, {}, {}, {}, socket, {}, {}});
  FieldError error;
  json body;
  if (!read_post_headers(request, &turn->headers, &error) ||
      !parse_json_object(request.body, &body, &error) ||
      !parse_response(body, &turn->request, &error)) {
    return exchange->respond(error_response(error));
  }
  turn->hash = hash_body(request.path, body);
  if (turn->headers.resume && turn->headers.idem_key.empty()) return find_again(turn);
  with_new_id(context, exchange, kResponseKind, "resp_", [turn](const NewId& made) {
    turn->id = made.id;
    turn->id_version = made.version;
    const auto& resume = turn->headers.resume;
    if (resume && resume->request_id != made.id) {
      return turn->exchange->respond(resume_mismatch("Last-Event-ID names response " +
                                                     resume->request_id +
                                                     ", this POST is response " + made.id));
    }
    gather_conversation(turn->context, turn->exchange, turn->socket.memory, turn->request.previous,
                        turn->request.items, [turn](Conversation conversation) {
                          turn->conversation = std::move(conversation);
                          compose(turn);
                        });
  });
}

void get_response(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  const std::string* wants = exchange->request().query_value("stream");
  const bool streams = wants != nullptr && *wants == "true";
  std::int64_t after = -1;
  if (!read_after(exchange->request(), captures[0], &after)) {
    return exchange->respond(error_response(
        FieldError{"'starting_after' must be the number of an event", "starting_after"}));
  }
  with_object(
      context, exchange, kResponseKind, captures[0],
      [&context, exchange, streams, after](const StoredObject& stored) {
        respond_with_stored(
            context, exchange, stored,
            [&context, exchange, streams, after](const json& body, const wire::RequestInfo& info) {
              const std::string echo = body.value("echo", json::object()).dump();
              const auto attachment =
                  std::make_shared<ResponseAttachment>(context, exchange, info, echo, true);
              if (streams) return attachment->stream(info, after, {});
              if (wire::is_terminal(info.state)) return attachment->whole(info, {});
              exchange->respond(json_response(response_json(info, echo, json::array())));
            });
      });
}

void cancel_response(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  const std::string id = captures[0];
  with_object(context, exchange, kResponseKind, id,
              [&context, exchange, id](const StoredObject& stored) {
                const json body = try_parse_json<json>(stored.body);
                if (body.contains("final")) return exchange->respond(json_response(body["final"]));
                const std::string echo = body.value("echo", json::object()).dump();
                context.client.cancel_async(
                    exchange->request().from, id,
                    on_strand<wire::RequestInfo>(
                        exchange, [&context, exchange, echo](const wire::RequestInfo& info) {
                          std::make_shared<ResponseAttachment>(context, exchange, info, echo, true)
                              ->whole(info, {});
                        }));
              });
}

void delete_response(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  const std::string id = captures[0];
  context.object_store->remove(
      exchange->request().from, kResponseKind, id,
      on_strand<bool>(exchange, [exchange, id](bool deleted) {
        if (!deleted) return exchange->respond(no_such(kResponseKind, id));
        exchange->respond(json_response({{"id", id}, {"object", "response"}, {"deleted", true}}));
      }));
}

void get_response_items(Context& context, const ExchangePtr& exchange, const Captures& captures) {
  with_object(
      context, exchange, kResponseKind, captures[0], [exchange](const StoredObject& stored) {
        const json body = try_parse_json<json>(stored.body);
        json data = body.is_object() ? body.value("items", json::array()) : json::array();
        for (std::size_t i = 0; i < data.size(); ++i) {
          data[i]["id"] = input_item_id(data[i], stored.id, i);
          if (!data[i].contains("type")) data[i]["type"] = "message";
        }
        const auto id_at = [&](std::size_t i) { return data.empty() ? json() : data[i]["id"]; };
        exchange->respond(json_response({{"object", "list"},
                                         {"first_id", id_at(0)},
                                         {"last_id", id_at(data.empty() ? 0 : data.size() - 1)},
                                         {"has_more", false},
                                         {"data", data}}));
      });
}

}  // namespace holdfast::gateway
