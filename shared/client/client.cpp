#include "shared/client/client.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <utility>

#include "shared/base/bytes.h"
#include "shared/client/io_loop.h"
#include "shared/wire/frame.h"

namespace holdfast::client {
namespace {

constexpr std::size_t kHoldAbove = 256;  // events that wait for a slow reader of stream()
constexpr std::size_t kReleaseBelow = 64;

/// Returns the member of the expected answer, or the failure; another message is the daemon's
/// fault.
template <class T, class U, class M>
Answer<U> expect(Reply reply, M T::*member) {
  if (auto* failure = std::get_if<Failure>(&reply)) return std::move(*failure);
  auto& message = std::get<wire::Message>(reply);
  if (auto* answer = std::get_if<T>(&message)) return std::move(answer->*member);
  return make_failure(Errc::kInternal, "the daemon answered with " +
                                           std::string(wire::message_name(message)) +
                                           ", which does not fit the call");
}

/// Refuses here what cannot travel, where the caller gets a reason; the daemon can only drop the
/// frame.
std::optional<Failure> check(const wire::Submit& submit) {
  const auto is_bad = [](const std::string& text) { return !is_valid_utf8(text); };
  for (const std::string* text :
       {&submit.request_id, &submit.tenant, &submit.idem_key, &submit.model, &submit.sampling.extra,
        &submit.meta, &submit.api_key}) {
    if (is_bad(*text)) return make_failure(Errc::kInvalidRequest, "submit: text is not UTF-8");
  }
  for (const std::string& stop : submit.stops) {
    if (is_bad(stop)) return make_failure(Errc::kInvalidRequest, "submit: a stop is not UTF-8");
  }
  const Result<void> fits = wire::check_encodable(submit);
  if (fits) return std::nullopt;
  return make_failure(Errc::kInvalidRequest, "submit: " + fits.error().what);
}

/// Passes events from the I/O thread to the caller of stream().
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<wire::Event> events;
  std::optional<Answer<wire::RequestInfo>> end;
  bool held = false;
};

class ClientImpl final : public Client {
 public:
  explicit ClientImpl(std::unique_ptr<IoLoop> loop) : loop_(std::move(loop)) {}

  void submit_async(const Principal& principal, wire::Submit submit,
                    std::function<void(Answer<wire::Accepted>)> done) override {
    submit.tenant = principal.tenant();
    submit.api_key = principal.key();
    if (submit.request_id.empty()) submit.request_id = new_request_id();
    if (auto failure = check(submit)) return done(std::move(*failure));
    loop_->call(std::move(submit), [done = std::move(done)](Reply reply) {
      if (auto* message = std::get_if<wire::Message>(&reply)) {
        if (auto* accepted = std::get_if<wire::Accepted>(message))
          return done(std::move(*accepted));
      }
      const auto wrong =
          expect<wire::Accepted, wire::RequestInfo>(std::move(reply), &wire::Accepted::info);
      done(std::get<Failure>(wrong));
    });
  }
  void status_async(const Caller& caller, const std::string& request_id,
                    std::function<void(Answer<wire::RequestInfo>)> done) override {
    wire::StatusQuery query;
    query.tenant = caller.tenant();
    query.request_id = request_id;
    call_for_info(std::move(query), std::move(done));
  }
  void cancel_async(const Caller& caller, const std::string& request_id,
                    std::function<void(Answer<wire::RequestInfo>)> done) override {
    wire::Cancel cancel;
    cancel.tenant = caller.tenant();
    cancel.request_id = request_id;
    call_for_info(std::move(cancel), std::move(done));
  }
  void models_async(const Caller& caller,
                    std::function<void(Answer<std::vector<wire::ModelInfo>>)> done) override {
    const bool all = caller.is_operator();
    loop_->call(wire::ModelsQuery{}, [all, done = std::move(done)](Reply reply) {
      auto answer = expect<wire::ModelsReply, std::vector<wire::ModelInfo>>(
          std::move(reply), &wire::ModelsReply::models);
      if (auto* models = std::get_if<0>(&answer); models != nullptr && !all) {
        for (wire::ModelInfo& model : *models) model.sha = model.reason = "";
      }
      done(std::move(answer));
    });
  }
  Answer<wire::Accepted> submit(const Principal& principal, wire::Submit submit) override {
    return wait<wire::Accepted>(
        [&](auto done) { submit_async(principal, std::move(submit), done); });
  }
  Answer<wire::RequestInfo> status(const Caller& caller, const std::string& request_id) override {
    return wait<wire::RequestInfo>([&](auto done) { status_async(caller, request_id, done); });
  }
  Answer<wire::RequestInfo> cancel(const Caller& caller, const std::string& request_id) override {
    return wait<wire::RequestInfo>([&](auto done) { cancel_async(caller, request_id, done); });
  }
  Answer<std::vector<wire::ModelInfo>> models(const Caller& caller) override {
    return wait<std::vector<wire::ModelInfo>>([&](auto done) { models_async(caller, done); });
  }
  Answer<std::string> op(const Caller& caller, const std::string& verb,
                         const std::string& args_json) override {
    return wait<std::string>([&](std::function<void(Answer<std::string>)> done) {
      op_async(caller, verb, args_json, std::move(done));
    });
  }
  void op_async(const Caller& caller, const std::string& verb, const std::string& args_json,
                std::function<void(Answer<std::string>)> done) override {
    op_bytes_async(caller, verb, args_json, {}, [done = std::move(done)](Answer<OpAnswer> answer) {
      if (auto* failure = std::get_if<Failure>(&answer)) return done(std::move(*failure));
      done(std::move(std::get<0>(answer).text));
    });
  }
  void op_bytes_async(const Caller& caller, const std::string& verb, const std::string& args_json,
                      std::string bytes, std::function<void(Answer<OpAnswer>)> done) override {
    wire::Op question{0, verb, args_json, caller.tenant(), caller.from_network(), std::move(bytes)};
    loop_->call(std::move(question), [done = std::move(done)](Reply reply) {
      if (auto* message = std::get_if<wire::Message>(&reply)) {
        if (auto* result = std::get_if<wire::OpResult>(message)) {
          if (!result->ok) return done(std::move(result->refusal));
          return done(OpAnswer{std::move(result->result), std::move(result->bytes)});
        }
      }
      auto wrong = expect<wire::OpResult, std::string>(std::move(reply), &wire::OpResult::result);
      done(std::move(std::get<Failure>(wrong)));
    });
  }

  StreamId open_stream(const Caller& caller, const std::string& request_id,
                       std::vector<std::int64_t> from, StreamHandler handler) override {
    return loop_->open_stream(caller.tenant(), request_id, std::move(from), std::move(handler));
  }
  std::int64_t silent_ms() const override { return loop_->silent_ms(); }
  void hold_stream(StreamId id, bool hold) override { loop_->hold_stream(id, hold); }
  void close_stream(StreamId id, bool for_good) override { loop_->close_stream(id, for_good); }

  Answer<wire::RequestInfo> stream(
      const Caller& caller, const std::string& request_id, std::vector<std::int64_t> from,
      const std::function<void(const wire::Event&)>& on_event) override;

 private:
  void call_for_info(wire::Message message, std::function<void(Answer<wire::RequestInfo>)> done) {
    loop_->call(std::move(message), [done = std::move(done)](Reply reply) {
      done(
          expect<wire::StatusReply, wire::RequestInfo>(std::move(reply), &wire::StatusReply::info));
    });
  }
  template <class T, class Start>
  Answer<T> wait(const Start& start) {
    CHECK_MSG(!loop_->is_io_thread(), "a blocking call of the client inside one of its handlers");
    auto promise = std::make_shared<std::promise<Answer<T>>>();
    auto future = promise->get_future();
    start([promise](Answer<T> answer) { promise->set_value(std::move(answer)); });
    return future.get();  // every call ends: by an answer, its deadline or the client's end
  }

  std::unique_ptr<IoLoop> loop_;
};

Answer<wire::RequestInfo> ClientImpl::stream(
    const Caller& caller, const std::string& request_id, std::vector<std::int64_t> from,
    const std::function<void(const wire::Event&)>& on_event) {
  CHECK_MSG(!loop_->is_io_thread(), "a blocking call of the client inside one of its handlers");
  auto box = std::make_shared<Mailbox>();
  auto id = std::make_shared<std::atomic<StreamId>>(0);
  const auto finish = [box](Answer<wire::RequestInfo> end) {
    const std::lock_guard lock(box->mutex);
    box->end = std::move(end);
    box->changed.notify_one();
  };
  StreamHandler handler;
  handler.on_event = [this, box, id](const wire::Event& event) {
    const std::lock_guard lock(box->mutex);
    box->events.push_back(event);
    if (!box->held && box->events.size() > kHoldAbove && id->load() != 0) {
      box->held = true;
      loop_->hold_stream(id->load(), true);
    }
    box->changed.notify_one();
  };
  handler.on_fin = finish;
  handler.on_failure = finish;
  id->store(loop_->open_stream(caller.tenant(), request_id, std::move(from), std::move(handler)));
  std::unique_lock lock(box->mutex);
  for (;;) {
    box->changed.wait(lock, [&] { return !box->events.empty() || box->end.has_value(); });
    if (box->events.empty()) return std::move(*box->end);
    const wire::Event event = std::move(box->events.front());
    box->events.pop_front();
    if (box->held && box->events.size() < kReleaseBelow) {
      box->held = false;
      loop_->hold_stream(id->load(), false);
    }
    lock.unlock();
    on_event(event);
    lock.lock();
  }
}

}  // namespace

Result<std::unique_ptr<Client>> Client::connect(const std::string& endpoint, Options options) {
  HOLDFAST_TRY(auto loop, IoLoop::start(endpoint, options));
  return std::unique_ptr<Client>(std::make_unique<ClientImpl>(std::move(loop)));
}

}  // namespace holdfast::client
