// Goal: a value that one way of asking takes is taken by every other and computed to the end; one
// beyond the range is refused by each with the same code and the parameter's name, before anything
// is accepted.
// Method: every row of kParameters, at its bounds and beyond, by the SDK, over HTTP and on the
// command line; with the fake engine and with the demo model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "control/gateway/common/sampling_fields.h"
#include "ops/cli/verbs.h"
#include "shared/sampling/parameters.h"
#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::sampling_ranges_test {
namespace {

using nlohmann::json;
using sampling::Parameter;
using sampling::SamplingOptions;

constexpr int kTokens = 2;

/// One value of a parameter.
struct Trial {
  const Parameter* parameter;
  json value;
  bool good;
};

/// The values for the type of a member: its bounds and the next ones beyond.
struct Values {
  const Parameter& parameter;
  std::vector<Trial> out;

  void add(json value, bool good) { out.push_back({&parameter, std::move(value), good}); }

  template <class S>
  void operator()(float S::*) {
    const auto [low, high, ends_only] = parameter.range;
    const auto beyond = [](double bound) { return 0.001 + 0.1 * std::fabs(bound); };
    add(low, true);
    add(high, true);
    add(low - beyond(low), false);
    add(high + beyond(high), false);
  }
  void whole_numbers() {
    const auto low = static_cast<std::int64_t>(parameter.range.low);
    const auto high = static_cast<std::int64_t>(parameter.range.high);
    add(low, true);
    add(high, true);
    // Beyond the default too: for the SDK one outside of the range is a parameter not given.
    const std::int64_t fallback = std::stoll(sampling::default_text(parameter));
    add(std::min(low, fallback) - 1, false);
    add(high + 1, false);
    if (parameter.range.ends_only) add(low + 1, false);
  }
  template <class S>
  void operator()(std::int32_t S::*) {
    whole_numbers();
  }
  template <class S>
  void operator()(std::int64_t S::*) {
    whole_numbers();
  }
  template <class S>
  void operator()(std::uint64_t S::*) {}
  template <class S>
  void operator()(bool S::*) {
    add(true, true);
  }
  void operator()(sampling::Texts SamplingOptions::*) {
    add(json::array({"zq", std::string(sampling::kTextBytesMax, 'q')}), true);
    add(json::array({std::string(sampling::kTextBytesMax + 1, 'q')}), false);
    add(json(std::vector<std::string>(sampling::kTextsMax + 1, "zq")), false);
  }
  void operator()(sampling::Order SamplingOptions::*) {
    json all = json::array();
    for (const std::string_view name : sampling::kStepNames) all.push_back(std::string(name));
    add(all, true);
    add(json::array({"temperature", "temperature"}), false);
    add(json::array({"magic"}), false);
  }
  void operator()(sampling::LogitBias SamplingOptions::*) {
    add({{"65", parameter.range.high}, {"66", parameter.range.low}}, true);
    add({{"65", parameter.range.high + 1}}, false);
    add({{"65", parameter.range.low - 1}}, false);
  }
};

std::vector<Trial> trials() {
  std::vector<Trial> out;
  for (const Parameter& parameter : sampling::kParameters) {
    Values values{parameter, {}};
    std::visit(values, parameter.member);
    out.insert(out.end(), values.out.begin(), values.out.end());
  }
  return out;
}

/// Puts a plain value into its member. Returns false if the member cannot hold it.
struct PlainValue {
  const json& value;
  wire::Sampling& out;

  bool operator()(float wire::Sampling::*member) const {
    out.*member = value.get<float>();
    return true;
  }
  bool operator()(std::int32_t wire::Sampling::*member) const {
    out.*member = value.get<std::int32_t>();
    return out.*member == value.get<std::int64_t>();
  }
  bool operator()(bool wire::Sampling::*member) const { return out.*member = value.get<bool>(); }
  template <class M>
  bool operator()(M) const {
    return false;
  }
};

/// The end of a trial.
struct Verdict {
  bool accepted = false;
  bool finished = false;
  std::string code;     // of a refusal
  std::string message;  // of a refusal, or of what went wrong
};

class SamplingRanges {
 public:
  explicit SamplingRanges(const std::vector<std::string>& flags) : server_(dir_.path() + "/state") {
    std::vector<std::string> all = {"--model", "demo=" + demo_model(), "--threads", "1"};
    all.insert(all.end(), flags.begin(), flags.end());
    started_ = server_.start(all);
    EXPECT_TRUE(started_) << server_.errors();
    if (started_) client_ = server_.client();
  }

  void walk() {
    if (!started_) return;
    for (const Trial& trial : trials()) {
      SCOPED_TRACE(std::string(trial.parameter->name) + " " + trial.value.dump());
      expect(trial, by_sdk(trial), "SDK");
      expect(trial, by_http(trial), "HTTP");
      expect(trial, by_cli(trial), "CLI");
    }
    EXPECT_EQ(server_.stop(), 0) << server_.errors();
  }

 private:
  static void expect(const Trial& trial, const std::optional<Verdict>& verdict, const char* by) {
    if (!verdict) return;  // cannot be said in this way
    EXPECT_EQ(verdict->accepted, trial.good) << by << ": " << verdict->message;
    EXPECT_EQ(verdict->finished, trial.good) << by << ": " << verdict->message;
    if (trial.good) return;
    EXPECT_EQ(verdict->code, "invalid_request") << by << ": " << verdict->message;
    std::string message = verdict->message;
    std::replace(message.begin(), message.end(), '-', '_');  // a flag's name
    EXPECT_NE(message.find(trial.parameter->name), std::string::npos) << by << ": " << message;
  }

  std::optional<Verdict> by_sdk(const Trial& trial) {
    wire::Submit submit = make_submit("O Romeo, ", kTokens, 7);
    if (!std::visit(PlainValue{trial.value, submit.sampling}, trial.parameter->member)) {
      bool plain = false;
      sampling::visit_plain(*trial.parameter, [&](auto) { plain = true; });
      if (plain) return std::nullopt;
      submit.sampling.extra = json{{std::string(trial.parameter->name), trial.value}}.dump();
    }
    const auto answer = client_->submit(client::Principal::local(), submit);
    if (const auto* failure = std::get_if<client::Failure>(&answer)) {
      return Verdict{false, false, std::string(errc_name(failure->code)), failure->message};
    }
    const std::string id = std::get<wire::Accepted>(answer).info.request_id;
    const auto ended = client_->stream(client::AllTenants::local(), id, {}, [](const auto&) {});
    if (const auto* failure = std::get_if<client::Failure>(&ended)) {
      return Verdict{true, false, "", failure->message};
    }
    const auto state = std::get<wire::RequestInfo>(ended).state;
    return Verdict{true, state == wire::RequestState::kSucceeded, "",
                   std::string(wire::state_name(state))};
  }

  /// HTTP's range may be narrower: a value between the two is refused there alone.
  static bool is_between(const Trial& trial) {
    const sampling::Range range = gateway::http_range(*trial.parameter);
    if (!trial.good || !trial.value.is_number()) return false;
    const auto value = trial.value.get<double>();
    return value < range.low || value > range.high;
  }

  std::optional<Verdict> by_http(const Trial& trial) {
    if (is_between(trial)) {
      EXPECT_FALSE(ask_http(trial).accepted) << "HTTP";
      return std::nullopt;
    }
    return ask_http(trial);
  }
  Verdict ask_http(const Trial& trial) {
    const std::string name(trial.parameter->name);
    const json body = {{"model", "demo"},
                       {"prompt", "O Romeo, "},
                       {"max_tokens", kTokens},
                       {"seed", 7},
                       {name, trial.value}};
    const HttpAnswer answer =
        http_exchange(server_.url(), http_post_text("/v1/completions", body.dump()));
    const json said = json::parse(answer.body, nullptr, false);
    if (!said.is_object()) return Verdict{false, false, "", answer.body};
    const json error = said.value("error", json::object());
    if (answer.status == 400) {
      EXPECT_EQ(error.value("param", json()), name) << answer.body;
    }
    return Verdict{answer.status == 200, answer.status == 200 && said.contains("choices"),
                   error.value("code", ""), error.value("message", answer.body)};
  }

  /// The flags of a value, one for each entry of a list.
  static std::vector<std::string> flags_of(const Trial& trial, const std::string& flag) {
    if (trial.value.is_boolean()) return {flag};
    std::vector<std::string> out;
    for (const auto& [key, one] : trial.value.items()) {
      const std::string text = one.is_string() ? one.get<std::string>() : one.dump();
      out.push_back(flag + "=" + (trial.value.is_object() ? key + "=" : "") + text);
    }
    return out;
  }

  std::optional<Verdict> by_cli(const Trial& trial) {
    std::string flag = "--" + std::string(trial.parameter->name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    const auto& arguments = cli::find_verb("run")->arguments;
    const bool has_flag = std::any_of(arguments.begin(), arguments.end(),
                                      [&](const auto& one) { return flag == one.name; });
    if (!has_flag) return std::nullopt;
    std::vector<std::string> args = {"--json", "run",   "demo",
                                     "O R",    "--raw", "--max-tokens=" + std::to_string(kTokens)};
    const std::vector<std::string> given = flags_of(trial, flag);
    args.insert(args.end(), given.begin(), given.end());
    const Ended ended = server_.cli(args);
    const json said = json::parse(ended.out, nullptr, false);
    const std::string code =
        said.is_object() && said.contains("error") ? said["error"].value("code", "") : "";
    return Verdict{ended.code == 0, ended.code == 0, code, ended.err};
  }

  TempDir dir_;
  TestServer server_;
  bool started_ = false;
  std::unique_ptr<client::Client> client_;
};

TEST(SamplingRangesTest, EveryParameter_WithTheFakeEngine_IsRefusedOrFinished) {
  SamplingRanges({"--engine", "fake"}).walk();
}

TEST(SamplingRangesTest, EveryParameter_WithTheDemoModel_IsRefusedOrFinished) {
  SamplingRanges({}).walk();
}

}  // namespace
}  // namespace holdfast::process::sampling_ranges_test
