#include "bench/soak_run/soak.h"

#include "bench/lib/load.h"

namespace holdfast::bench {
namespace {

constexpr std::int64_t kKinds = 500;
constexpr std::int64_t kTokens = 64;

}  // namespace

SteadyLoad::SteadyLoad(std::unique_ptr<client::Client> client, double per_second, FirstTokens first)
    : first_(std::move(first)), client_(std::move(client)) {
  thread_ = std::thread([this, per_second] { run(per_second); });
}

SteadyLoad::~SteadyLoad() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
  client_.reset();
}

void SteadyLoad::run(double per_second) {
  const std::int64_t begin = now_us();
  for (std::int64_t number = 0;; ++number) {
    const auto due =
        begin + static_cast<std::int64_t>(static_cast<double>(number) * 1e6 / per_second);
    sleep_ms(static_cast<double>(due - now_us()) / 1000);
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
      ++counts_.submitted;
      ++open_;
    }
    submit(number);
  }
}

void SteadyLoad::submit(std::int64_t number) {
  const std::int64_t kind = number % kKinds;
  const std::int64_t begin = now_us();
  // Half of them as text, so that the ingress helper's kills matter.
  wire::Submit request = kind % 2 == 0 ? ids_submit(kind, kTokens) : text_submit(kind, kTokens);
  client_->submit_async(client::Principal::local(), std::move(request),
                        [=, this](client::Answer<wire::Accepted> answer) {
                          if (const auto* accepted = std::get_if<wire::Accepted>(&answer)) {
                            {
                              const std::lock_guard lock(mutex_);
                              ++counts_.accepted;
                            }
                            follow(kind, accepted->info.request_id, begin);
                            return;
                          }
                          problem("refused: " + std::get<client::Failure>(answer).message);
                          const std::lock_guard lock(mutex_);
                          ++counts_.refused;
                          --open_;
                        });
}

void SteadyLoad::follow(std::int64_t kind, const std::string& id, std::int64_t begin_us) {
  auto ids = std::make_shared<std::vector<wire::TokenId>>();
  client::StreamHandler handler;
  handler.on_event = [ids](const wire::Event& event) {
    ids->insert(ids->end(), event.ids.begin(), event.ids.end());
  };
  handler.on_fin = [=, this](const wire::RequestInfo& info) { ended(kind, *ids, info, begin_us); };
  handler.on_failure = [this, id](const client::Failure& failure) {
    problem("stream of " + id + ": " + failure.message);
    const std::lock_guard lock(mutex_);
    ++counts_.failed;
    --open_;
  };
  client_->open_stream(client::AllTenants::local(), id, {}, std::move(handler));
}

void SteadyLoad::ended(std::int64_t kind, const std::vector<wire::TokenId>& ids,
                       const wire::RequestInfo& info, std::int64_t begin_us) {
  const bool good = info.state == wire::RequestState::kSucceeded;
  const double took = static_cast<double>(now_us() - begin_us) / 1000;
  bool same = true;
  {
    const std::lock_guard lock(mutex_);
    --open_;
    counts_.succeeded += good;
    counts_.failed += !good;
    counts_.took_ms.push_back(took);
    if (good) {
      const auto [first, fresh] = first_.emplace(kind, ids);
      same = ids.size() == kTokens && (fresh || first->second == ids);
      counts_.wrong += !same;
    }
  }
  if (!good) problem("request ended as " + std::string(wire::state_name(info.state)));
  if (!same) problem("request " + info.request_id + " gave other tokens than before");
}

void SteadyLoad::problem(const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (counts_.first_problem.empty()) counts_.first_problem = what;
}

std::int64_t SteadyLoad::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

FirstTokens SteadyLoad::first_tokens() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

SteadyLoad::Counts SteadyLoad::finish(double patience_s) {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  thread_.join();
  const std::int64_t until = now_us() + static_cast<std::int64_t>(patience_s * 1e6);
  while (open() > 0 && now_us() < until) sleep_ms(20);
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace holdfast::bench
