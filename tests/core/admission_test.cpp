// Goal: each field of a submission is let in up to its bound and refused beyond it, by its name.
// Method: one table with the last good and the first bad value of every bound.
#include "control/core/admission.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace holdfast::core::admission_test {
namespace {

wire::Submit good() {
  wire::Submit s;
  s.request_id = "r-1_A";
  s.model = "m";
  wire::Prompt p;
  p.ids = std::vector<TokenId>{1, 2};
  s.prompts = {p};
  return s;
}

using Change = std::function<void(wire::Submit&)>;
struct Bound {
  const char* field;
  std::vector<Change> in;
  std::vector<Change> out;
};

template <class T>
Change sampled(T wire::Sampling::*field, T value) {
  return [=](wire::Submit& s) { s.sampling.*field = value; };
}
Bound between(const char* field, float wire::Sampling::*member, float low, float high) {
  const float beyond = high * 1.001f;
  const float below = low == 0 ? -0.001f : low - std::abs(low) * 0.01f;
  return {field,
          {sampled(member, low), sampled(member, high)},
          {sampled(member, below), sampled(member, beyond),
           sampled(member, std::numeric_limits<float>::quiet_NaN()),
           sampled(member, std::numeric_limits<float>::infinity())}};
}
Change text(std::string wire::Submit::*member, std::size_t bytes) {
  return [=](wire::Submit& s) { s.*member = std::string(bytes, 'a'); };
}
Change stops(std::size_t count, std::size_t bytes) {
  return [=](wire::Submit& s) { s.stops.assign(count, std::string(bytes, 'x')); };
}
Change id(const std::string& value) {
  return [=](wire::Submit& s) { s.request_id = value; };
}

std::vector<Bound> bounds() {
  using S = wire::Sampling;
  const auto max_tokens = [](std::int64_t n) { return [n](wire::Submit& s) { s.max_tokens = n; }; };
  const auto prompt = [](std::function<void(wire::Prompt&)> change) {
    return [change](wire::Submit& s) { change(s.prompts[0]); };
  };
  return {
      {"request_id",
       {text(&wire::Submit::request_id, 64), id(""), id("azAZ09-_")},
       {text(&wire::Submit::request_id, 65), id("a b"), id("a/b"), id("a`"), id("{"), id("["),
        id("@"), id(":"), id("\x7f")}},
      {"tenant", {text(&wire::Submit::tenant, 128)}, {text(&wire::Submit::tenant, 129)}},
      {"api_key", {text(&wire::Submit::api_key, 128)}, {text(&wire::Submit::api_key, 129)}},
      {"idempotency key",
       {text(&wire::Submit::idem_key, 256)},
       {text(&wire::Submit::idem_key, 257)}},
      {"model", {text(&wire::Submit::model, 1)}, {text(&wire::Submit::model, 0)}},
      {"prompts", {}, {[](wire::Submit& s) { s.prompts.clear(); }}},
      {"prompt",
       {prompt([](wire::Prompt& p) {
          p = {"text", {}, {}};
        }),
        prompt([](wire::Prompt& p) {
          p = {{}, {}, "[]"};
        })},
       {prompt([](wire::Prompt& p) { p.text = "both"; }),
        prompt([](wire::Prompt& p) { p.messages_json = "[]"; }),
        prompt([](wire::Prompt& p) { p = {}; }), prompt([](wire::Prompt& p) { p.ids->clear(); })}},
      {"n",
       {[](wire::Submit& s) { s.n = 1; }},
       {[](wire::Submit& s) { s.n = 0; }, [](wire::Submit& s) { s.n = -1; }}},
      {"max_tokens",
       {max_tokens(0), max_tokens(1'000'000'000)},
       {max_tokens(-1), max_tokens(1'000'000'001)}},
      {"stop", {stops(64, 1), stops(1, 1024)}, {stops(65, 1), stops(1, 0), stops(1, 1025)}},
      between("temperature", &S::temperature, 0, 100),
      between("top_p", &S::top_p, 0, 1),
      between("min_p", &S::min_p, 0, 1),
      between("repetition_penalty", &S::repetition_penalty, 0.01f, 100),
      between("presence_penalty", &S::presence_penalty, -100, 100),
      between("frequency_penalty", &S::frequency_penalty, -100, 100),
      {"top_k", {sampled(&S::top_k, -1), sampled(&S::top_k, INT32_MAX)}, {sampled(&S::top_k, -2)}},
      {"min_tokens", {sampled(&S::min_tokens, 0)}, {sampled(&S::min_tokens, -1)}},
      {"logprobs",
       {sampled(&S::logprobs, -1), sampled(&S::logprobs, 64)},
       {sampled(&S::logprobs, -2), sampled(&S::logprobs, 65)}},
      {"prompt_logprobs",
       {sampled(&S::prompt_logprobs, -1), sampled(&S::prompt_logprobs, 64)},
       {sampled(&S::prompt_logprobs, -2), sampled(&S::prompt_logprobs, 65)}},
      {"sampling extra",
       {sampled(&S::extra, std::string(kExtraBytesMax, ' '))},
       {sampled(&S::extra, std::string(kExtraBytesMax + 1, ' '))}},
      {"timeouts",
       {[](wire::Submit& s) { s.queue_timeout_ms = s.total_timeout_ms = 0; }},
       {[](wire::Submit& s) { s.queue_timeout_ms = -1; },
        [](wire::Submit& s) { s.total_timeout_ms = -1; }}},
      {"priority",
       {[](wire::Submit& s) { s.priority = PriorityClass::kBatch; }},
       {[](wire::Submit& s) { s.priority = static_cast<PriorityClass>(3); }}},
  };
}

TEST(Admission, SubmitFields_WhenBeyondTheirBound_AreRefusedByName) {
  const Config config;
  for (const Bound& bound : bounds()) {
    for (std::size_t i = 0; i < bound.in.size(); ++i) {
      wire::Submit s = good();
      bound.in[i](s);
      const auto refusal = check_submit(s, config);
      EXPECT_FALSE(refusal.has_value()) << bound.field << " good " << i << ": " << refusal->message;
    }
    for (std::size_t i = 0; i < bound.out.size(); ++i) {
      wire::Submit s = good();
      bound.out[i](s);
      const auto refusal = check_submit(s, config);
      ASSERT_TRUE(refusal.has_value()) << bound.field << " bad " << i;
      EXPECT_EQ(refusal->code, Errc::kInvalidRequest);
      EXPECT_NE(refusal->message.find(bound.field), std::string::npos) << refusal->message;
    }
  }
}

TEST(Admission, AdmitContext_WhenPromptAndOutputFillIt_AdmitsUpToTheLastToken) {
  // Prompts of 7 and 10: the longest counts. Context 16, then a pool of 14.
  const auto verdict = [](std::optional<std::int64_t> max_tokens, std::int64_t context,
                          std::int64_t pool) {
    return admit_context({7, 10}, max_tokens, context, pool);
  };
  EXPECT_EQ(verdict(6, 16, 100).max_tokens, 6);
  EXPECT_FALSE(verdict(6, 16, 100).refusal.has_value());
  const auto over = verdict(7, 16, 100).refusal;
  ASSERT_TRUE(over.has_value());
  EXPECT_EQ(over->needed, 17);
  EXPECT_EQ(over->largest, 16);
  EXPECT_EQ(over->free, 6);
  EXPECT_EQ(verdict(5, 16, 14).refusal->free, 4);
  EXPECT_EQ(verdict(std::nullopt, 16, 100).max_tokens, 6);
  EXPECT_EQ(verdict(std::nullopt, 11, 100).max_tokens, 1);
  EXPECT_EQ(verdict(std::nullopt, 10, 100).refusal->needed, 11);
  EXPECT_EQ(verdict(std::nullopt, 9, 100).refusal->free, 0);
  EXPECT_EQ(verdict(0, 10, 100).max_tokens, 0);
  EXPECT_FALSE(verdict(0, 10, 100).refusal.has_value());
}

/// A request whose prompts' rows could not be read takes nothing of the context.
TEST(Admission, AdmitContext_WithoutAPrompt_AdmitsTheWholeContext) {
  const ContextVerdict verdict = admit_context({}, std::nullopt, 100, 640, {});
  EXPECT_FALSE(verdict.refusal.has_value());
  EXPECT_EQ(verdict.max_tokens, 100);
  EXPECT_TRUE(admit_context({}, 101, 100, 640, {}).refusal.has_value());
}

}  // namespace
}  // namespace holdfast::core::admission_test
