#include <condition_variable>
#include <mutex>

#include "bench/lib/stats.h"
#include "bench/neighbours_run/api_client.h"

namespace holdfast::bench {
namespace {

using client::AllTenants;
using client::Failure;
using client::Principal;

constexpr std::int64_t kTokensOfA = 24;
constexpr std::int64_t kTokensOfB = 2;

wire::Submit submission(const Crowding& crowding, std::int64_t tokens) {
  wire::Submit submit;
  submit.model = "demo";
  wire::Prompt prompt;
  prompt.text = "To be";
  submit.prompts.assign(static_cast<std::size_t>(crowding.prompts), prompt);
  submit.n = crowding.n;
  submit.max_tokens = tokens;
  submit.sampling.seed = 7;
  submit.sampling.ignore_eos = true;
  submit.seed_given = true;
  return submit;
}

Error failed(const std::string& what, const Failure& failure) {
  return {failure.code, what + ": " + failure.message};
}

/// Results of a's submissions, for callbacks of the client's thread.
struct Many {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> ids;
  int answered = 0;
  std::string failure;
};

class SdkApiClient final : public ApiClient {
 public:
  SdkApiClient(std::unique_ptr<client::Client> a, std::unique_ptr<client::Client> many,
               std::unique_ptr<client::Client> b)
      : a_(std::move(a)), many_(std::move(many)), b_(std::move(b)) {}

  Result<double> wait_of_b() override {
    std::int64_t first_us = 0;
    std::vector<wire::TokenId> ids;
    const std::int64_t begin = now_us();
    HOLDFAST_CHECKED(run(*b_, "b", kTokensOfB, [&](const wire::Event& event) {
      if (first_us == 0 && !event.ids.empty()) first_us = now_us();
      ids.insert(ids.end(), event.ids.begin(), event.ids.end());
    }));
    if (ids_of_b_.empty()) ids_of_b_ = ids;
    if (ids.empty() || ids != ids_of_b_) {
      return Error{Errc::kInternal, "b's tokens are other ones"};
    }
    return static_cast<double>(first_us - begin) / 1000;
  }

  Result<void> one_of_a() override {
    return run(*a_, "a", kTokensOfA, [](const wire::Event&) {});
  }

  Result<void> begin(const Crowding& crowding) override {
    waiting_ = std::make_shared<Many>();
    sent_ = crowding.requests;
    for (int i = 0; i < sent_; ++i) {
      many_->submit_async(Principal::local("a"), submission(crowding, kTokensOfA),
                          [many = waiting_](client::Answer<wire::Accepted> answer) {
                            const std::lock_guard lock(many->mutex);
                            if (auto* accepted = std::get_if<wire::Accepted>(&answer)) {
                              many->ids.push_back(accepted->info.request_id);
                            } else {
                              many->failure = std::get<Failure>(answer).message;
                            }
                            ++many->answered;
                            many->changed.notify_all();
                          });
    }
    return {};
  }

  Result<void> end() override {
    std::unique_lock lock(waiting_->mutex);
    waiting_->changed.wait(lock, [&] { return waiting_->answered == sent_; });
    if (!waiting_->failure.empty()) return Error{Errc::kInternal, waiting_->failure};
    for (const std::string& id : waiting_->ids) {
      HOLDFAST_TRY(const wire::RequestInfo info, ended(id));
      if (info.state != wire::RequestState::kSucceeded) {
        return Error{Errc::kInternal,
                     "a request of a is " + std::string(wire::state_name(info.state))};
      }
      for (const wire::ChoiceInfo& choice : info.choices) {
        if (choice.next_index != kTokensOfA) return Error{Errc::kInternal, "a token is missing"};
      }
    }
    return {};
  }

 private:
  template <class OnEvent>
  static Result<void> run(client::Client& client, const std::string& tenant, std::int64_t tokens,
                          OnEvent on_event) {
    const Principal principal = Principal::local(tenant);
    const auto accepted = client.submit(principal, submission({}, tokens));
    if (const auto* failure = std::get_if<Failure>(&accepted)) {
      return failed("submit of " + tenant, *failure);
    }
    const auto fin =
        client.stream(principal, std::get<wire::Accepted>(accepted).info.request_id, {}, on_event);
    if (const auto* failure = std::get_if<Failure>(&fin)) {
      return failed("stream of " + tenant, *failure);
    }
    if (std::get<wire::RequestInfo>(fin).state == wire::RequestState::kSucceeded) return {};
    return Error{Errc::kInternal, "a request of " + tenant + " did not succeed"};
  }

  Result<wire::RequestInfo> ended(const std::string& id) {
    constexpr int kLooks = 6'000;
    for (int i = 0; i < kLooks; ++i) {
      auto answer = many_->status(AllTenants::local(), id);
      if (const auto* failure = std::get_if<Failure>(&answer)) return failed("status", *failure);
      auto info = std::get<wire::RequestInfo>(std::move(answer));
      if (wire::is_terminal(info.state)) return info;
      sleep_ms(100);
    }
    return Error{Errc::kTimeout, "request " + id + " does not end"};
  }

  std::unique_ptr<client::Client> a_, many_, b_;
  std::shared_ptr<Many> waiting_;
  int sent_ = 0;
  std::vector<wire::TokenId> ids_of_b_;
};

}  // namespace

Result<std::unique_ptr<ApiClient>> make_sdk_api_client(const Served& served) {
  HOLDFAST_TRY(auto a, served.connect());
  HOLDFAST_TRY(auto many, served.connect());
  HOLDFAST_TRY(auto b, served.connect());
  return Result<std::unique_ptr<ApiClient>>(
      std::make_unique<SdkApiClient>(std::move(a), std::move(many), std::move(b)));
}

}  // namespace holdfast::bench
