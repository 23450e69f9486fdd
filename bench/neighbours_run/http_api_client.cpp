#include <nlohmann/json.hpp>

#include "bench/neighbours_run/api_client.h"
#include "shared/base/json_text.h"

namespace holdfast::bench {
namespace {

using nlohmann::json;

constexpr int kTokensOfA = 24;
constexpr int kTokensOfB = 2;
constexpr int kOfAnAddress = 128;  // connections: the gateway takes 256 of one

std::string completion(const std::string& key, const json& prompt, int n, int tokens, bool stream) {
  json body = {{"model", "demo"}, {"prompt", prompt},     {"n", n},
               {"seed", 7},       {"max_tokens", tokens}, {"ignore_eos", true}};
  if (stream) body["stream"] = true;
  return request_text("POST", "/v1/completions", key, body.dump());
}

Error wrong(const std::string& what, const Answer& answer) {
  return {Errc::kInternal,
          what + ": " + std::to_string(answer.status) + " " + answer.body.substr(0, 300)};
}

class HttpApiClient final : public ApiClient {
 public:
  HttpApiClient(int port, std::string key_of_a, std::string key_of_b)
      : port_(port),
        key_of_a_(std::move(key_of_a)),
        key_of_b_(std::move(key_of_b)),
        a_(port),
        b_(port) {}

  Result<double> wait_of_b() override {
    const Answer answer = b_.ask(completion(key_of_b_, "To be", 1, kTokensOfB, true));
    if (answer.status != 200 || !answer.complete || answer.first_ms < 0) {
      return wrong("b's request", answer);
    }
    const std::string text = streamed_text(answer.body);
    if (text_of_b_.empty()) text_of_b_ = text;
    if (text.empty() || text != text_of_b_) return wrong("b's text is another one", answer);
    return answer.first_ms;
  }

  Result<void> one_of_a() override {
    return judge(a_.ask(completion(key_of_a_, "To be", 1, kTokensOfA, false)), 1);
  }

  Result<void> begin(const Crowding& crowding) override {
    choices_ = crowding.prompts * crowding.n;
    const std::string request = completion(
        key_of_a_,
        json(std::vector<std::string>(static_cast<std::size_t>(crowding.prompts), "To be")),
        crowding.n, kTokensOfA, false);
    many_.reserve(static_cast<std::size_t>(crowding.requests));
    for (int i = 0; i < crowding.requests; ++i) {
      many_.emplace_back(port_, "127.0.0." + std::to_string(2 + i / kOfAnAddress));
      many_.back().send(request);
    }
    return {};
  }

  Result<void> end() override {
    Result<void> done{};
    for (Connection& one : many_) {
      if (const Result<void> good = judge(one.read(), choices_); !good && done) done = good.error();
    }
    many_.clear();
    return done;
  }

 private:
  /// Checks that all choices are there, and that choice 0 gives the same text as in earlier
  /// requests.
  Result<void> judge(const Answer& answer, int choices) {
    const json body = try_parse_json<json>(answer.body);
    if (answer.status != 200 || !body.is_object()) return wrong("a request of a", answer);
    const json& all = body["choices"];
    if (static_cast<int>(all.size()) != choices) return wrong("choices are missing", answer);
    for (const json& one : all) {
      if (one["finish_reason"] != "length") return wrong("a choice ended early", answer);
    }
    const std::string text = all[0]["text"];
    if (text_of_a_.empty()) text_of_a_ = text;
    if (text.empty() || text != text_of_a_) return wrong("a's text is another one", answer);
    return {};
  }

  const int port_;
  const std::string key_of_a_, key_of_b_;
  Connection a_, b_;
  std::vector<Connection> many_;
  int choices_ = 1;
  std::string text_of_a_, text_of_b_;
};

}  // namespace

std::unique_ptr<ApiClient> make_http_api_client(int port, const std::string& key_of_a,
                                                const std::string& key_of_b) {
  return std::make_unique<HttpApiClient>(port, key_of_a, key_of_b);
}

}  // namespace holdfast::bench
