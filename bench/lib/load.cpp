#include "bench/lib/load.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "shared/base/token_stamp.h"

namespace holdfast::bench {
namespace {

constexpr std::size_t kAgesMax = 2'000'000;

wire::Submit bare_submit(std::int64_t number, std::int64_t max_tokens) {
  wire::Submit submit;
  submit.model = "bench";
  submit.max_tokens = max_tokens;
  submit.sampling.seed = static_cast<std::uint64_t>(number);
  submit.sampling.ignore_eos = true;
  submit.seed_given = true;
  return submit;
}

}  // namespace

wire::Submit ids_submit(std::int64_t number, std::int64_t max_tokens) {
  wire::Submit submit = bare_submit(number, max_tokens);
  wire::Prompt prompt;
  std::vector<wire::TokenId>& ids = prompt.ids.emplace();
  for (int i = 0; i < 16; ++i) ids.push_back(static_cast<wire::TokenId>(3 + (number + i) % 200));
  submit.prompts.push_back(std::move(prompt));
  return submit;
}

wire::Submit text_submit(std::int64_t number, std::int64_t max_tokens) {
  wire::Submit submit = bare_submit(number, max_tokens);
  wire::Prompt prompt;
  prompt.text = "Scene " + std::to_string(number) + ". Enter two gentlemen, and a third apart.";
  submit.prompts.push_back(std::move(prompt));
  return submit;
}

namespace {

/// State of a closed load; callbacks of several I/O threads use it.
struct Closed {
  const MakeSubmit& make;
  const std::function<void(const wire::RequestInfo&)>& on_accepted;
  std::int64_t count;
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t started = 0;
  std::int64_t ended = 0;
  LoadResult result;
};

void submit_next(Closed& load, client::Client& client) {
  std::int64_t number = 0;
  {
    const std::lock_guard lock(load.mutex);
    if (load.started == load.count) return;
    number = load.started++;
  }
  const std::int64_t begin = now_us();
  client.submit_async(client::Principal::local(), load.make(number),
                      [&, begin](client::Answer<wire::Accepted> answer) {
                        const double ms = static_cast<double>(now_us() - begin) / 1000;
                        const auto* accepted = std::get_if<wire::Accepted>(&answer);
                        if (accepted != nullptr && load.on_accepted)
                          load.on_accepted(accepted->info);
                        submit_next(load, client);
                        const std::lock_guard lock(load.mutex);
                        if (accepted != nullptr) {
                          ++load.result.accepted;
                          load.result.latency_ms.push_back(ms);
                        } else {
                          ++load.result.refused;
                          const auto& failure = std::get<client::Failure>(answer);
                          if (load.result.first_failure.empty())
                            load.result.first_failure = failure.message;
                        }
                        if (++load.ended == load.count) load.changed.notify_all();
                      });
}

}  // namespace

LoadResult closed_load(const std::string& endpoint, int clients, int in_flight, std::int64_t count,
                       const MakeSubmit& make,
                       const std::function<void(const wire::RequestInfo&)>& on_accepted) {
  Closed load{make, on_accepted, count, {}, {}, 0, 0, {}};
  std::vector<std::unique_ptr<client::Client>> connections;
  for (int i = 0; i < clients; ++i) {
    client::Options options;
    options.timeout = std::chrono::seconds(120);
    auto client = client::Client::connect(endpoint, options);
    CHECK(client);
    (void)(*client)->models(client::AllTenants::local());  // connected before the clock starts
    connections.push_back(std::move(client).value());
  }
  const std::int64_t begin = now_us();
  for (int i = 0; i < in_flight; ++i) {
    submit_next(load, *connections[static_cast<std::size_t>(i % clients)]);
  }
  std::unique_lock lock(load.mutex);
  load.changed.wait(lock, [&] { return load.ended == load.count; });
  load.result.seconds = static_cast<double>(now_us() - begin) / 1e6;
  LoadResult result = std::move(load.result);
  lock.unlock();
  connections.clear();  // joins their threads, which may still be inside the last callback
  return result;
}

struct PacedLoad::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t open = 0;
  LoadResult result;
};

PacedLoad::PacedLoad(const std::string& endpoint, double per_second, MakeSubmit make)
    : make_(std::move(make)), shared_(std::make_shared<Shared>()) {
  auto client = client::Client::connect(endpoint, {});
  CHECK(client);
  client_ = std::move(client).value();
  (void)client_->models(client::AllTenants::local());
  thread_ = std::thread([this, per_second] { run(per_second); });
}

PacedLoad::~PacedLoad() {
  if (thread_.joinable()) (void)stop();
}

void PacedLoad::run(double per_second) {
  const std::int64_t begin = now_us();
  for (std::int64_t number = 0; !stop_.load(); ++number) {
    const std::int64_t due =
        begin + static_cast<std::int64_t>(static_cast<double>(number) * 1e6 / per_second);
    sleep_ms(static_cast<double>(due - now_us()) / 1000);
    {
      const std::lock_guard lock(shared_->mutex);
      ++shared_->open;
    }
    client_->submit_async(client::Principal::local(), make_(number),
                          [shared = shared_, due](const client::Answer<wire::Accepted>& answer) {
                            const double ms = static_cast<double>(now_us() - due) / 1000;
                            const std::lock_guard lock(shared->mutex);
                            if (std::holds_alternative<wire::Accepted>(answer)) {
                              ++shared->result.accepted;
                              shared->result.latency_ms.push_back(ms);
                            } else {
                              ++shared->result.refused;
                              const std::string& why = std::get<client::Failure>(answer).message;
                              if (shared->result.first_failure.empty())
                                shared->result.first_failure = why;
                            }
                            --shared->open;
                            shared->changed.notify_all();
                          });
  }
  const std::lock_guard lock(shared_->mutex);
  shared_->result.seconds = static_cast<double>(now_us() - begin) / 1e6;
}

LoadResult PacedLoad::stop() {
  stop_.store(true);
  thread_.join();
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [&] { return shared_->open == 0; });
  return std::move(shared_->result);
}

void TokenAges::watch(client::Client& client, const std::string& request_id) {
  client::StreamHandler handler;
  handler.on_event = [this](const wire::Event& event) {
    const std::int64_t now = now_us();
    const std::lock_guard lock(mutex_);
    if (!counting_) return;
    ++result_.events;
    result_.tokens += static_cast<std::int64_t>(event.ids.size());
    for (const wire::TokenId id : event.ids) {
      if (result_.age_ms.size() >= kAgesMax) break;
      result_.age_ms.push_back(static_cast<double>(stamp_age_us(id, now)) / 1000);
    }
  };
  handler.on_fin = [this](const wire::RequestInfo&) { finished_.fetch_add(1); };
  handler.on_failure = [this](const client::Failure&) {
    finished_.fetch_add(1);
    const std::lock_guard lock(mutex_);
    ++result_.failures;
  };
  client.open_stream(client::AllTenants::local(), request_id, {}, std::move(handler));
}

void TokenAges::begin() {
  const std::lock_guard lock(mutex_);
  const std::int64_t failures = result_.failures;
  result_ = {};
  result_.failures = failures;
  counting_ = true;
}

TokenAges::Result TokenAges::end() {
  const std::lock_guard lock(mutex_);
  counting_ = false;
  return result_;
}

Spinners::Spinners(int count) {
  for (int i = 0; i < count; ++i) {
    const pid_t parent = getpid();
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);
      for (;;) {
        asm volatile("" ::: "memory");  // a loop that the compiler may not remove
      }
    }
    pids_.push_back(pid);
  }
}

Spinners::~Spinners() {
  for (const pid_t pid : pids_) kill(pid, SIGKILL);
  for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
}

}  // namespace holdfast::bench
