#include "control/gateway/common/attachment.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "control/gateway/common/answer_forms.h"
#include "control/gateway/common/render.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/sse.h"
#include "shared/base/crash_point.h"

namespace holdfast::gateway {
namespace {

/// Returns the last event of a stream whose server ends. The stream can be resumed from its last
/// id.
std::string stopping_event(Api api, const wire::Refusal& why) {
  const bool anthropic = api == Api::kMessages;
  const std::string body = error_for(api_path(api), http_status(why.code), error_body(why, ""));
  if (is_ollama(api)) return body + "\n";
  std::string out;
  append_event_without_id(out, anthropic ? "error" : "", body);
  return out;
}

constexpr std::chrono::seconds kTellAgain{9};  // before the keep-alive of a silent stream
constexpr std::int64_t kPositionsPerSecond = 50;
constexpr std::int64_t kPauseSecondsMax = 10;

/// Returns how long a waiting request is not asked about. Far behind, its position is of less use
/// and there are more of its kind.
std::chrono::seconds pause_at(std::int64_t position) {
  return std::chrono::seconds(
      std::min(1 + std::max<std::int64_t>(position, 0) / kPositionsPerSecond, kPauseSecondsMax));
}

/// One attachment. Its members run on the exchange's strand; the SDK's callbacks only post to it.
class Attachment : public std::enable_shared_from_this<Attachment> {
 public:
  Attachment(Context& context, ExchangePtr exchange, wire::RequestInfo info, View view)
      : context_(context),
        exchange_(std::move(exchange)),
        view_(std::move(view)),
        id_(info.request_id) {
    view_.headers.emplace_back("X-Request-Id", info.request_id);
    if (view_.whole != nullptr) {
      whole_ = std::move(view_.whole);
    } else if (view_.shape.stream) {
      stream_ = context.forms->stream(view_.shape, std::move(info), view_.resume_from);
    } else {
      whole_ = context.forms->whole(view_.shape, std::move(info));
    }
  }

  void begin(const std::string& request_id) {
    if (exchange_->closed()) return;
    if (stream_) {
      Response head;
      head.content_type = stream_->content_type();
      head.headers = view_.headers;
      head.headers.emplace_back("Cache-Control", "no-cache");
      head.headers.emplace_back("X-Accel-Buffering", "no");
      exchange_->begin_stream(std::move(head), stream_->keep_alive());
      exchange_->write(stream_->open());
    }
    exchange_->on_close([self = shared_from_this()] { self->leave(); });
    exchange_->on_stop([self = shared_from_this()] { self->stop(); });
    client::StreamHandler handler;
    const auto self = shared_from_this();
    handler.on_attached = [self](const wire::RequestInfo& info) {
      self->exchange_->post([self, info] { self->on_attached(info); });
    };
    handler.on_event = [self](const wire::Event& event) {
      self->exchange_->post([self, event] { self->on_event(event); });
    };
    handler.on_fin = [self](const wire::RequestInfo& info) {
      self->exchange_->post([self, info] { self->on_fin(info); });
    };
    handler.on_failure = [self](const client::Failure& failure) {
      self->exchange_->post([self, failure] { self->on_failure(failure); });
    };
    // The stream begins at 0 even if the client has more: the rule for held text needs earlier
    // tokens.
    stream_id_ = context_.client.open_stream(caller_of(exchange_->request()), request_id, {},
                                             std::move(handler));
    open_ = true;
    if (stream_ && stream_->tells_position()) watch_position();
  }

 private:
  using InfoAnswer = client::Answer<wire::RequestInfo>;

  /// Asks where the request stands, as long as the client has seen no token of it.
  void watch_position() {
    exchange_->after(pause_at(position_), [self = shared_from_this()] {
      if (self->done_ || self->begun_) return;
      self->context_.client.status_async(
          caller_of(self->exchange_->request()), self->id_, [self](const InfoAnswer& answer) {
            self->exchange_->post([self, answer] { self->on_position(answer); });
          });
    });
  }

  void on_position(const InfoAnswer& answer) {
    if (done_ || begun_) return;
    const auto* info = std::get_if<wire::RequestInfo>(&answer);
    const auto now = std::chrono::steady_clock::now();
    if (info != nullptr && info->queue_position >= 0 &&
        (info->queue_position != position_ || now - told_ >= kTellAgain)) {
      position_ = info->queue_position;
      told_ = now;
      exchange_->write(stream_->waiting(*info));
    }
    watch_position();
  }

  void on_attached(const wire::RequestInfo& info) {
    if (done_) return;
    if (stream_) stream_->update(info);
    if (whole_) whole_->update(info);
  }

  void on_event(const wire::Event& event) {
    if (done_) return;
    begun_ = true;
    crash_point(CrashPoint::kGatewayEventBefore);
    if (whole_) return whole_->on_event(event);
    exchange_->write(stream_->on_event(event));
    crash_point(CrashPoint::kGatewayEventAfter);
    if (held_ || exchange_->pending_bytes() <= context_.hold_bytes) return;
    set_held(true);
    context_.client.hold_stream(stream_id_, true);
    exchange_->on_drain(context_.resume_bytes, [self = shared_from_this()] {
      self->set_held(false);
      if (!self->done_) self->context_.client.hold_stream(self->stream_id_, false);
    });
  }

  void on_fin(const wire::RequestInfo& info) {
    if (std::exchange(done_, true)) return;
    close_stream();
    crash_point(CrashPoint::kGatewayFinBefore);
    if (stream_) {
      exchange_->write(stream_->on_fin(info));
      exchange_->end();
    } else {
      respond(whole_->on_fin(info));
    }
    crash_point(CrashPoint::kGatewayFinAfter);
  }

  void on_failure(const client::Failure& failure) {
    if (std::exchange(done_, true)) return;
    close_stream();
    if (stream_) {
      exchange_->write(stream_->on_failure(failure));
      return exchange_->end();
    }
    respond(error_response(failure));
  }

  void respond(Response response) {
    for (Header& header : view_.headers) response.headers.push_back(std::move(header));
    exchange_->respond(std::move(response));
  }

  void leave() {
    done_ = true;
    close_stream(view_.leaves_for_good);
  }

  /// Tells the client how it gets the rest, when the gateway ends before the answer does.
  void stop() {
    if (std::exchange(done_, true)) return;
    close_stream();
    const wire::Refusal why = stopping(id_);
    if (!stream_) return respond(error_response(why));
    exchange_->write(stopping_event(view_.shape.api, why));
    exchange_->end();
  }

  void set_held(bool held) {
    if (std::exchange(held_, held) != held) context_.http->held_streams += held ? 1 : -1;
  }

  void close_stream(bool for_good = false) {
    set_held(false);
    if (std::exchange(open_, false)) context_.client.close_stream(stream_id_, for_good);
  }

  Context& context_;
  ExchangePtr exchange_;
  View view_;
  const std::string id_;
  std::unique_ptr<EventWriter> stream_;
  std::shared_ptr<WholeAnswer> whole_;
  client::StreamId stream_id_ = 0;
  bool open_ = false;
  bool held_ = false;
  bool done_ = false;
  bool begun_ = false;          // a token has come
  std::int64_t position_ = -1;  // in the queue, as told last
  std::chrono::steady_clock::time_point told_{};
};

}  // namespace

void show_request(Context& context, const ExchangePtr& exchange, wire::RequestInfo info,
                  View view) {
  const std::string request_id = info.request_id;
  std::make_shared<Attachment>(context, exchange, std::move(info), std::move(view))
      ->begin(request_id);
}

}  // namespace holdfast::gateway
