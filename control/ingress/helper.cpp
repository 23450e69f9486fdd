#include "control/ingress/helper.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "control/ingress/inspect.h"
#include "shared/base/clock.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"
#include "shared/wire/frame.h"

namespace holdfast::ingress {
namespace {

constexpr int kTickMs = 100;
constexpr int kRetryMs = 5;
constexpr std::size_t kJobsMax = 4096;  // tasks that wait; the daemon sends far fewer
// Time for libzmq to send the last answer before the process ends.
constexpr auto kFarewell = std::chrono::milliseconds(100);

wire::Prepared refusal(std::uint64_t job, Errc code, std::string message) {
  wire::Prepared out;
  out.job = job;
  out.refusal.code = code;
  out.refusal.message = std::move(message);
  return out;
}

}  // namespace

Helper::Helper(HelperOptions options) : options_(std::move(options)), cache_(options_.tokenizers) {
  prepare_lane_.thread = std::thread([this] { run_lane(prepare_lane_); });
  inspect_lane_.thread = std::thread([this] { run_lane(inspect_lane_); });
}

Helper::~Helper() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  prepare_lane_.wakes.notify_all();
  inspect_lane_.wakes.notify_all();
  prepare_lane_.thread.join();
  inspect_lane_.thread.join();
}

void Helper::request_stop() {
  stop_.store(true);
  wake_.notify();
}

void Helper::run_lane(Lane& lane) {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      lane.wakes.wait(lock, [&] { return ending_ || !lane.tasks.empty(); });
      if (ending_) return;
      task = std::move(lane.tasks.front());
      lane.tasks.pop_front();
    }
    task();
  }
}

void Helper::post(Lane& lane, std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    lane.tasks.push_back(std::move(task));
  }
  lane.wakes.notify_one();
}

void Helper::finish(std::uint64_t connection, wire::Message answer) {
  {
    const std::lock_guard lock(mutex_);
    if (connection == connection_) answers_.push_back(std::move(answer));
  }
  wake_.notify();
}

Result<void> Helper::open() {
  wire::SocketOptions options;
  // A daemon of this host that ends closes the socket; a starved one must not lose the connection.
  options.heartbeat_interval_ms = 0;
  options.message_bytes_max = 256 << 20;  // a tokenizer of a large vocabulary
  HOLDFAST_TRY(auto socket, wire::Socket::open(context_, wire::SocketKind::kDealer, options));
  socket_ = std::make_unique<wire::Socket>(std::move(socket));
  HOLDFAST_CHECKED(socket_->start_monitor(context_));
  return socket_->connect(options_.endpoint);
}

Result<Helper::End> Helper::run() {
  HOLDFAST_CHECKED(open());
  std::vector<wire::WaitItem> items = {{socket_.get(), -1, false}, {nullptr, wake_.fd(), false}};
  if (probe_.fd() >= 0) items.push_back({nullptr, probe_.fd(), false});
  while (!stop_.load()) {
    probe_.answer();
    drain_link_events();
    drain_messages();
    const bool overdue = refuse_overdue();
    send_answers();
    if (overdue) {
      std::this_thread::sleep_for(kFarewell);
      return End::kOverdue;
    }
    bool unsent = hello_due_;
    {
      const std::lock_guard lock(mutex_);
      unsent = unsent || !answers_.empty();
    }
    wire::wait_readable(items, unsent ? kRetryMs : kTickMs);
    wake_.clear();
  }
  return End::kStopped;
}

void Helper::drain_link_events() {
  while (const auto event = socket_->next_link_event()) {
    // The daemon asks again for what it still needs; its job numbers may start anew.
    const std::lock_guard lock(mutex_);
    ++connection_;
    answers_.clear();
    waiting_.clear();
    prepare_lane_.tasks.clear();
    inspect_lane_.tasks.clear();
    hello_due_ = *event == wire::LinkEvent::kConnected;
  }
  if (hello_due_) {
    hello_due_ =
        socket_->send(wire::encode(wire::IngressHello{getpid()})) != wire::SendStatus::kSent;
    if (!hello_due_) crash_point(CrashPoint::kIngressHelloSent);
  }
}

void Helper::drain_messages() {
  while (auto received = socket_->receive()) {
    Result<wire::Message> message = wire::decode(received->frame);
    if (message.has_value()) {
      on_message(std::move(message).value());
    } else {
      log::warn("frame refused", {{"reason", message.error().what}});
    }
  }
}

void Helper::on_message(wire::Message message) {
  if (const auto* ping = std::get_if<wire::Ping>(&message)) {
    finish(connection_, wire::Pong{ping->tag});
  } else if (auto* job = std::get_if<wire::Prepare>(&message)) {
    on_prepare(std::move(*job));
  } else if (auto* blob = std::get_if<wire::TokenizerBlob>(&message)) {
    on_blob(std::move(*blob));
  } else if (auto* inspect = std::get_if<wire::Inspect>(&message)) {
    post(inspect_lane_, [this, connection = connection_, job = std::move(*inspect)] {
      this->inspect(connection, job);
    });
  }
}

void Helper::inspect(std::uint64_t connection, const wire::Inspect& job) {
  crash_point(CrashPoint::kIngressInspectBefore);
  // Before the file is hashed, which may take minutes.
  if (const auto good = check_profile(job.profile); !good) {
    wire::Inspected refused = refused_file(good.error());
    refused.job = job.job;
    return finish(connection, std::move(refused));
  }
  std::optional<wire::Inspected> inspected = options_.spawner != nullptr
                                                 ? options_.spawner->inspect(job)
                                                 : inspect_in_child(options_.program, job);
  crash_point(CrashPoint::kIngressInspectAfter);
  if (inspected) {
    add_profile(job, *inspected);
    return finish(connection, std::move(*inspected));
  }
  // The daemon asks the next helper.
  log::error("the spawner of readers is gone; ending to be started anew");
  request_stop();
}

void Helper::on_prepare(wire::Prepare job) {
  {
    const std::lock_guard lock(mutex_);
    if (prepare_lane_.tasks.size() >= kJobsMax) {
      answers_.push_back(
          refusal(job.job, Errc::kQueueFull, "too many prompts wait for tokenizing"));
      return;
    }
  }
  if (cache_.find(job.model_sha) != nullptr) return start_prepare(std::move(job));
  const std::string sha = job.model_sha;
  std::vector<wire::Prepare>& waiting = waiting_[sha];
  if (waiting.empty()) finish(connection_, wire::NeedTokenizer{sha});
  waiting.push_back(std::move(job));
}

void Helper::on_blob(wire::TokenizerBlob blob) {
  crash_point(CrashPoint::kIngressBlobRead);
  cache_.put(blob.model_sha, std::move(blob.blob));
  const auto waiting = waiting_.find(blob.model_sha);
  if (waiting == waiting_.end()) return;
  std::vector<wire::Prepare> jobs = std::move(waiting->second);
  waiting_.erase(waiting);
  for (wire::Prepare& job : jobs) start_prepare(std::move(job));
}

void Helper::start_prepare(wire::Prepare job) {
  const TokenizerCache::Entry* entry = cache_.find(job.model_sha);
  if (!entry->error.what.empty()) {
    return finish(connection_, refusal(job.job, entry->error.code, entry->error.what));
  }
  post(prepare_lane_, [this, connection = connection_, tokenizer = entry->tokenizer,
                       job = std::move(job)] {
    {
      const std::lock_guard lock(mutex_);
      running_job_ = job.job;
      running_connection_ = connection;
      running_since_us_ = system_clock().monotonic_us();
    }
    crash_point(CrashPoint::kIngressPrepareBefore);
    wire::Prepared prepared = prepare(job, tokenizer.get(), options_.limits);
    if (prepared.ok) {
      const std::string& extra = prepared.options ? prepared.options->sampling.extra : job.extra;
      const auto good = grammars_.check(job.model_sha, tokenizer.get(), extra);
      if (good.has_value()) {
        prepared.embedding = good.value();
      } else {
        prepared = refusal(job.job, good.error().code, good.error().what);
      }
    }
    crash_point(CrashPoint::kIngressPrepareAfter);
    {
      const std::lock_guard lock(mutex_);
      running_since_us_ = 0;
    }
    finish(connection, std::move(prepared));
  });
}

void Helper::send_answers() {
  for (;;) {
    wire::Message answer;
    {
      const std::lock_guard lock(mutex_);
      if (answers_.empty()) return;
      answer = std::move(answers_.front());
      answers_.pop_front();
    }
    if (socket_->send(wire::encode(answer)) == wire::SendStatus::kSent) {
      crash_point(CrashPoint::kIngressAnswerSent);
      continue;
    }
    const std::lock_guard lock(mutex_);
    answers_.push_front(std::move(answer));
    return;
  }
}

bool Helper::refuse_overdue() {
  const std::lock_guard lock(mutex_);
  if (running_since_us_ == 0) return false;
  const std::int64_t ms = (system_clock().monotonic_us() - running_since_us_) / 1000;
  if (ms < options_.job_ms) return false;
  log::error("a prompt took too long to tokenize; ending to be started anew", {{"ms", ms}});
  answers_.push_back(
      refusal(running_job_, Errc::kTimeout,
              "prompt: tokenizing took longer than " + std::to_string(options_.job_ms) + " ms"));
  return true;
}

}  // namespace holdfast::ingress
