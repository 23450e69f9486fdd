#include "ops/chat/answer.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace holdfast::cli {
namespace {

using namespace std::chrono_literals;
using client::Failure;

constexpr auto kLook = 20ms;  // how soon a signal is noticed
constexpr auto kPatience = 60s;
constexpr std::size_t kHoldAbove = 256;  // events that wait for the terminal

/// News of the I/O thread for the caller. Shared, as an abandoned call may end after its caller.
template <class T>
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<wire::Event> events;
  std::optional<std::variant<T, Failure>> end;

  void put_end(std::variant<T, Failure> value) {
    const std::lock_guard lock(mutex);
    end = std::move(value);
    changed.notify_all();
  }
};

bool may_pass(const Failure& failure) {
  return failure.code == Errc::kDraining || failure.code == Errc::kUnreachable ||
         failure.code == Errc::kTimeout;
}

/// One try of a submission; nullopt after a second Ctrl-C or SIGTERM.
std::optional<std::variant<wire::Accepted, Failure>> try_submit(client::Client& client,
                                                                const wire::Submit& submit,
                                                                const Interrupts& interrupts) {
  const auto mailbox = std::make_shared<Mailbox<wire::Accepted>>();
  client.submit_async(client::Principal::local(), submit,
                      [mailbox](auto answer) { mailbox->put_end(std::move(answer)); });
  std::unique_lock lock(mailbox->mutex);
  while (!mailbox->end) {
    if (interrupts.count() > 1 || interrupts.terminated()) return std::nullopt;
    mailbox->changed.wait_for(lock, kLook);
  }
  return std::move(mailbox->end);
}

/// The stream of one answer.
class Follower {
 public:
  Follower(client::Client& client, const wire::RequestInfo& info, const std::string& output)
      : client_(client), id_(info.request_id), text_(info.stops, output) {}

  Outcome<ChatAnswer> run(const Interrupts& interrupts,
                          const std::function<void(const AnswerPart&)>& on_part) {
    open();
    for (;;) {
      if (interrupts.count() > 1 || interrupts.terminated()) {
        client_.close_stream(stream_);
        return Abandoned();
      }
      if (interrupts.count() == 1) cancel();
      const auto end = take(on_part);
      if (!end) continue;
      if (const auto* failure = std::get_if<Failure>(&*end)) return *failure;
      show(text_.finish(), on_part);
      answer_.info = std::get<wire::RequestInfo>(*end);
      answer_.tokens = text_.tokens();
      return std::move(answer_);
    }
  }

 private:
  void open() {
    client::StreamHandler handler;
    handler.on_event = [mailbox = mailbox_](const wire::Event& event) {
      const std::lock_guard lock(mailbox->mutex);
      mailbox->events.push_back(event);
      mailbox->changed.notify_all();
    };
    handler.on_fin = [mailbox = mailbox_](const wire::RequestInfo& end) { mailbox->put_end(end); };
    handler.on_failure = [mailbox = mailbox_](const Failure& failure) {
      mailbox->put_end(failure);
    };
    stream_ = client_.open_stream(client::Principal::local(), id_, {}, std::move(handler));
  }
  void cancel() {
    if (cancelled_) return;
    cancelled_ = true;
    client_.cancel_async(client::Principal::local(), id_, [](const auto&) {});
  }
  /// Shows what has come; returns the end once everything before it was shown.
  std::optional<std::variant<wire::RequestInfo, Failure>> take(
      const std::function<void(const AnswerPart&)>& on_part) {
    std::deque<wire::Event> events;
    {
      std::unique_lock lock(mailbox_->mutex);
      mailbox_->changed.wait_for(lock, kLook,
                                 [&] { return mailbox_->end || !mailbox_->events.empty(); });
      events.swap(mailbox_->events);
      if (events.empty()) return mailbox_->end;
    }
    const bool slow = events.size() > kHoldAbove;  // the terminal, or who reads us
    if (slow) client_.hold_stream(stream_, true);
    for (const wire::Event& event : events) show(text_.feed(event), on_part);
    if (slow) client_.hold_stream(stream_, false);
    return std::nullopt;
  }
  void show(const AnswerPart& part, const std::function<void(const AnswerPart&)>& on_part) {
    answer_.text += part.text;
    answer_.thinking += part.thinking;
    if (!part.text.empty() || !part.thinking.empty()) on_part(part);
  }

  client::Client& client_;
  std::string id_;
  AnswerText text_;
  ChatAnswer answer_;
  std::shared_ptr<Mailbox<wire::RequestInfo>> mailbox_ =
      std::make_shared<Mailbox<wire::RequestInfo>>();
  client::StreamId stream_ = 0;
  bool cancelled_ = false;
};

}  // namespace

AnswerText::AnswerText(std::vector<std::string> stops, const std::string& output)
    : releaser_(std::move(stops)) {
  const chat::OutputKind kind = chat::read_output(output);
  if (!kind.reasoning && !chat::has_channels(kind.format)) return;
  chat::OutputOptions options;
  options.format = kind.format;
  options.reasoning = kind.reasoning;
  options.starts_in_reasoning = kind.opens_reasoning;
  parser_.emplace(options);
}

AnswerPart AnswerText::parse(const std::string& text) {
  if (!parser_) return {text, {}};
  chat::OutputDelta delta = parser_->feed(text);
  return {std::move(delta.content), std::move(delta.reasoning)};
}

AnswerPart AnswerText::feed(const wire::Event& event) {
  AnswerPart out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < event.ids.size() && i < event.ends.size(); ++i) {
    const std::size_t end = std::min<std::size_t>(event.ends[i], event.bytes.size());
    if (end < begin) return out;  // decode() has checked; be safe
    std::string bytes = event.bytes.substr(begin, end - begin);
    if (parser_ && i < event.special.size() && !event.special[i].empty()) bytes = event.special[i];
    const AnswerPart part = parse(releaser_.feed(bytes));
    out.text += part.text;
    out.thinking += part.thinking;
    begin = end;
    ++tokens_;
  }
  return out;
}

AnswerPart AnswerText::finish() {
  AnswerPart out;
  if (!releaser_.stopped()) out = parse(releaser_.finish());
  if (!parser_) return out;
  const chat::OutputDelta rest = parser_->finish();
  out.text += rest.content;
  out.thinking += rest.reasoning;
  return out;
}

Outcome<wire::RequestInfo> submit_question(client::Client& client, const wire::Submit& submit,
                                           const Interrupts& interrupts) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    auto answer = try_submit(client, submit, interrupts);
    if (!answer) return Abandoned();
    if (auto* accepted = std::get_if<wire::Accepted>(&*answer)) return std::move(accepted->info);
    const auto& failure = std::get<Failure>(*answer);
    if (!may_pass(failure) || std::chrono::steady_clock::now() > until) return failure;
    for (int i = 0; i < 25 && !interrupts.any(); ++i) std::this_thread::sleep_for(kLook);
  }
}

Outcome<ChatAnswer> follow_answer(client::Client& client, const wire::RequestInfo& info,
                                  const std::string& output, const Interrupts& interrupts,
                                  const std::function<void(const AnswerPart&)>& on_part) {
  return Follower(client, info, output).run(interrupts, on_part);
}

}  // namespace holdfast::cli
