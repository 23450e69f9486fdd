// Goal: every way of sampling does what its definition says, and a choice that is resumed anywhere
// goes on with the same ids. Method: the definitions written a second time, in doubles and without
// cleverness, over random rows; brute force for repetitions and banned texts; the engine's device
// double, resumed at every index, against a run without interruption.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "shared/chat/thinking.h"
#include "tests/engine/hash_executor.h"
#include "worker/engine/banned.h"
#include "worker/engine/philox.h"
#include "worker/model/exact_math.h"

namespace holdfast::engine::sampling_test {
namespace {

using sampling::parse_extra;
using sampling::SamplingExtra;

SamplingExtra extra_of(const std::string& json, std::int32_t vocab = 97) {
  auto extra = parse_extra(json, vocab);
  EXPECT_TRUE(extra.has_value()) << json << ": " << extra.error().what;
  return extra.value();
}

// ---- the definitions once more

struct Entry {
  double logit;
  TokenId id;
  double p = 0;
};

void softmax(std::vector<Entry>& list) {
  double sum = 0;
  for (Entry& e : list) sum += e.p = std::exp(e.logit - list[0].logit);
  for (Entry& e : list) e.p /= sum;
}

void retain_if(std::vector<Entry>& list, const std::function<bool(const Entry&)>& good) {
  std::vector<Entry> retained;
  for (const Entry& e : list) {
    if (retained.empty() || good(e)) retained.push_back(e);  // the first always stays
  }
  list = retained;
}

void step(std::vector<Entry>& list, const std::string& name, const wire::Sampling& s,
          const SamplingExtra& extra, double xtc) {
  softmax(list);
  if (name == "top_n_sigma" && extra.top_n_sigma > 0) {
    double mean = 0, square = 0;
    for (const Entry& e : list) mean += e.logit / static_cast<double>(list.size());
    for (const Entry& e : list) square += (e.logit - mean) * (e.logit - mean);
    const double least =
        list[0].logit - extra.top_n_sigma * std::sqrt(square / static_cast<double>(list.size()));
    retain_if(list, [&](const Entry& e) { return e.logit >= least; });
  } else if (name == "temperature") {
    for (Entry& e : list) e.logit /= s.temperature;
  } else if (name == "top_k" && s.top_k > 0) {
    if (list.size() > static_cast<std::size_t>(s.top_k)) {
      list.resize(static_cast<std::size_t>(s.top_k));
    }
  } else if (name == "typ_p" && extra.typical_p < 1) {
    double entropy = 0;
    for (const Entry& e : list) entropy -= e.p * std::log(e.p);
    auto far = [&](const Entry& e) { return std::fabs(-std::log(e.p) - entropy); };
    std::vector<Entry> sorted = list;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const Entry& a, const Entry& b) { return far(a) < far(b); });
    double sum = 0;
    std::vector<TokenId> retained;
    for (const Entry& e : sorted) {
      retained.push_back(e.id);
      if ((sum += e.p) >= extra.typical_p) break;
    }
    std::erase_if(list, [&](const Entry& e) {
      return std::find(retained.begin(), retained.end(), e.id) == retained.end();
    });
  } else if (name == "top_p" && s.top_p < 1) {
    double sum = 0;
    std::size_t n = 0;
    while (n < list.size() && sum < s.top_p) sum += list[n++].p;
    list.resize(n);
  } else if (name == "top_a" && extra.top_a > 0) {
    const double least = extra.top_a * list[0].p * list[0].p;
    retain_if(list, [&](const Entry& e) { return e.p >= least; });
  } else if (name == "min_p" && s.min_p > 0) {
    const double least = list[0].p * s.min_p;
    retain_if(list, [&](const Entry& e) { return e.p >= least; });
  } else if (name == "xtc" && xtc < extra.xtc_probability) {
    const auto above = std::count_if(list.begin(), list.end(),
                                     [&](const Entry& e) { return e.p >= extra.xtc_threshold; });
    if (above >= 2) list.erase(list.begin(), list.begin() + above - 1);
  }
}

TokenId reference_sample(const std::vector<float>& row, const wire::Sampling& s,
                         const SamplingExtra& extra, double random_draw, double xtc, double* mu) {
  std::vector<Entry> list;
  for (std::size_t i = 0; i < row.size(); ++i) list.push_back({row[i], static_cast<TokenId>(i)});
  std::stable_sort(list.begin(), list.end(),
                   [](const Entry& a, const Entry& b) { return a.logit > b.logit; });
  std::vector<std::string> order;
  for (const sampling::Step one : extra.order) order.emplace_back(sampling::step_name(one));
  if (order.empty()) {
    order = {"top_n_sigma", "temperature", "top_k", "typ_p", "top_p", "top_a", "min_p", "xtc"};
  }
  for (const std::string& name : order) {
    if (mu == nullptr || name == "temperature" || name == "top_n_sigma") {
      step(list, name, s, extra, xtc);
    }
  }
  softmax(list);
  if (mu != nullptr) {
    retain_if(list, [&](const Entry& e) { return -std::log2(e.p) <= *mu; });
    softmax(list);
  }
  double sum = 0;
  std::size_t at = 0;
  while (at + 1 < list.size() && (sum += list[at].p) <= random_draw) ++at;
  if (mu != nullptr) {
    *mu -= extra.mirostat_eta * (-std::log2(list[at].p) - extra.mirostat_tau);
  }
  return list[at].id;
}

/// Some of all settings, drawn.
std::string drawn_extra(std::mt19937& random) {
  const auto real = [&] { return std::uniform_real_distribution<>(0, 1)(random); };
  std::string json = "{";
  const auto add = [&](const std::string& member) {
    json += (json.size() > 1 ? "," : "") + member;
  };
  if (random() % 3 == 0) add("\"typical_p\":" + std::to_string(0.1 + 0.85 * real()));
  if (random() % 3 == 0) add("\"top_a\":" + std::to_string(0.9 * real()));
  if (random() % 3 == 0) add("\"top_n_sigma\":" + std::to_string(0.2 + 2 * real()));
  if (random() % 3 == 0) {
    add("\"xtc_probability\":" + std::to_string(real()));
    add("\"xtc_threshold\":" + std::to_string(0.01 + 0.3 * real()));
  }
  if (random() % 4 == 0) {
    std::vector<std::string> steps = {"top_n_sigma", "temperature", "top_k", "typ_p",
                                      "top_p",       "top_a",       "min_p", "xtc"};
    std::shuffle(steps.begin(), steps.end(), random);
    steps.resize(1 + random() % steps.size());
    std::string list;
    for (const std::string& name : steps) list += (list.empty() ? "\"" : ",\"") + name + "\"";
    add("\"samplers\":[" + list + "]");
  }
  if (json == "{") add("\"typical_p\":0.7");
  return json + "}";
}

wire::Sampling drawn_sampling(std::mt19937& random) {
  const auto real = [&] { return std::uniform_real_distribution<float>(0, 1)(random); };
  wire::Sampling s;
  s.temperature = 0.2F + 1.5F * real();
  if (random() % 2 == 0) s.top_k = static_cast<std::int32_t>(1 + random() % 40);
  if (random() % 2 == 0) s.top_p = 0.2F + 0.8F * real();
  if (random() % 2 == 0) s.min_p = 0.2F * real();
  s.seed = random();
  return s;
}

std::vector<float> drawn_row(std::mt19937& random, std::size_t n = 97) {
  std::normal_distribution<float> normal(0, 2.5F);
  std::vector<float> row(n);
  for (float& x : row) x = normal(random);
  return row;
}

TEST(Sampling, SamplerChain_WithRandomParameters_AgreesWithReference) {
  std::mt19937 random(1);
  Sampler sampler(97, {});
  int different = 0;
  constexpr int kTries = 4000;
  for (int i = 0; i < kTries; ++i) {
    const SamplingExtra extra = extra_of(drawn_extra(random));
    const wire::Sampling s = drawn_sampling(random);
    const std::vector<float> row = drawn_row(random);
    SampleInput in;
    in.sampling = &s;
    in.extra = &extra;
    in.generated_n = i;
    const double random_draw = random_unit(s.seed, 0, i, RandomPurpose::kSample);
    const double xtc = random_unit(s.seed, 0, i, RandomPurpose::kXtc);
    const bool greedy = s.top_k == 1 && extra.order.empty();
    const TokenId expected =
        greedy ? static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin())
               : reference_sample(row, s, extra, random_draw, xtc, nullptr);
    different += sampler.sample({row.data()}, in) != expected;
  }
  EXPECT_LE(different, kTries / 500);  // floats at the edge of a cut
}

/// A row in which the ids up to 1501 have `edge` of the weight 1 / (1 - edge) that 2500 completes,
/// but for `off`. The weight of all others is 0.
std::vector<float> row_with_edge(double edge, double off) {
  std::vector<float> row(3000, -1e4F);
  const double expected = edge / (1 - edge);
  row[2500] = 0;
  row[1500] = static_cast<float>(std::log(expected * (1 - 2e-6)));
  float have = 0;
  model::exact_exp_array(&row[1500], 0, 1, &have, 1);
  row[1501] = static_cast<float>(std::log(expected - static_cast<double>(have) + off));
  return row;
}

// Sums of parts do not tell what is sampled this close to the edge of a token's share.
TEST(Sampling, Sample_WhenTheDrawIsNearAnEdge_FallsOnItsSide) {
  Sampler sampler(3000, {});
  wire::Sampling s;
  SampleInput in;
  in.sampling = &s;
  int edges = 0;
  for (s.seed = 1; s.seed < 60; ++s.seed) {
    const double unit = random_unit(s.seed, 0, 0, RandomPurpose::kSample);
    if (unit > 0.45 || unit < 0.05) continue;
    for (const double off : {1e-9, 1e-11, 1e-12}) {
      EXPECT_EQ(sampler.sample({row_with_edge(unit, off).data()}, in), 1501)
          << s.seed << " " << off;
      EXPECT_EQ(sampler.sample({row_with_edge(unit, -off).data()}, in), 2500)
          << s.seed << " " << off;
    }
    ++edges;
  }
  EXPECT_GT(edges, 15);
}

TEST(Sampling, Sample_WhenTheMaskForbidsAllTokens_EndsTheTextIfPossible) {
  const std::vector<float> row(97, 1.0F);
  const std::vector<std::uint64_t> nothing(2, 0);
  wire::Sampling s;
  SampleInput in;
  in.sampling = &s;
  in.mask = nothing;
  EXPECT_EQ(Sampler(97, {3}).sample({row.data()}, in), 3);
  EXPECT_EQ(Sampler(97, {}).sample({row.data()}, in), std::nullopt);
}

TEST(Sampling, TopA_WithAThresholdBetweenTwoTokens_LeavesTheLikelierOnes) {
  // p: 0.5, 0.3, 0.2; top_a x 0.25 is compared with them.
  const std::vector<float> row = {std::log(0.5F), std::log(0.3F), std::log(0.2F), -1e4F};
  const auto sampled_ids = [&](const std::string& json) {
    const SamplingExtra extra = extra_of(json, 4);
    wire::Sampling s;
    SampleInput in;
    in.sampling = &s;
    in.extra = &extra;
    Sampler sampler(4, {});
    std::set<TokenId> ids;
    float mu = first_mu(extra);
    if (extra.mirostat != 0) in.mirostat_mu = &mu;
    for (s.seed = 0; s.seed < 200; ++s.seed) ids.insert(sampler.sample({row.data()}, in).value());
    return ids;
  };
  EXPECT_EQ(sampled_ids("{\"top_a\":0}"), (std::set<TokenId>{0, 1, 2}));
  EXPECT_EQ(sampled_ids("{\"top_a\":0.7}"), (std::set<TokenId>{0, 1, 2}));
  EXPECT_EQ(sampled_ids("{\"top_a\":0.9}"), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(sampled_ids("{\"top_a\":1,\"samplers\":[\"top_a\"]}"), (std::set<TokenId>{0, 1}));
  EXPECT_EQ(sampled_ids("{\"top_a\":1,\"mirostat\":2}"), (std::set<TokenId>{0, 1, 2}));
}

TEST(Sampling, Penalties_WithoutOtherSettings_AreApplied) {
  std::vector<float> row(97, 0.0F);
  row[7] = 4, row[8] = 3, row[9] = 2;
  const std::vector<TokenId> tokens = {8, 7, 7};
  wire::Sampling s;
  s.temperature = 0;
  SampleInput in;
  in.sampling = &s;
  in.tokens = tokens.data();
  in.prompt_n = 1, in.generated_n = 2;
  Sampler sampler(97, {});
  EXPECT_EQ(sampler.sample({row.data()}, in), 7);
  s.frequency_penalty = 0.9F;  // twice for 7
  EXPECT_EQ(sampler.sample({row.data()}, in), 8);
  s.frequency_penalty = 0, s.presence_penalty = 1.5F;  // once
  EXPECT_EQ(sampler.sample({row.data()}, in), 8);
  s.presence_penalty = 0.9F;
  EXPECT_EQ(sampler.sample({row.data()}, in), 7);
  s.presence_penalty = 0, s.repetition_penalty = 1.6F;  // of the prompt's 8 too
  EXPECT_EQ(sampler.sample({row.data()}, in), 7);
  s.repetition_penalty = 2.5F;
  EXPECT_EQ(sampler.sample({row.data()}, in), 9);
}

TEST(Sampling, Temperature_WhenNearlyZero_IsGreedy) {
  std::mt19937 random(4);
  Sampler sampler(97, {});
  const SamplingExtra extra = extra_of("{\"typical_p\":0.9}");
  for (int i = 0; i < 50; ++i) {
    const std::vector<float> row = drawn_row(random);
    wire::Sampling s = drawn_sampling(random);
    s.temperature = 1e-7F;
    SampleInput in;
    in.sampling = &s;
    in.extra = &extra;
    in.generated_n = i;
    EXPECT_EQ(sampler.sample({row.data()}, in),
              std::max_element(row.begin(), row.end()) - row.begin());
  }
}

TEST(Sampling, Mirostat_WithATau_HoldsItsSurprise) {
  std::mt19937 random(2);
  Sampler sampler(97, {});
  for (const double tau : {1.0, 2.0, 3.0}) {
    const SamplingExtra extra =
        extra_of("{\"mirostat\":2,\"mirostat_tau\":" + std::to_string(tau) + "}");
    wire::Sampling s;
    s.seed = 7;
    float mu = first_mu(extra);
    double reference_mu = 2 * tau;
    int different = 0;
    double surprise = 0;
    constexpr int kTokens = 2000;
    for (int i = 0; i < kTokens; ++i) {
      const std::vector<float> row = drawn_row(random);
      SampleInput in;
      in.sampling = &s;
      in.extra = &extra;
      in.generated_n = i;
      in.mirostat_mu = &mu;
      const float before = mu;
      const double random_draw = random_unit(s.seed, 0, i, RandomPurpose::kSample);
      const TokenId expected = reference_sample(row, s, extra, random_draw, 1, &reference_mu);
      const TokenId sampled = *sampler.sample({row.data()}, in);
      different += sampled != expected;
      surprise += (static_cast<double>(before) - static_cast<double>(mu)) / 0.1 + tau;
      if (sampled != expected) reference_mu = static_cast<double>(mu);
      float again = before;  // replayed: the same state, whatever the draw
      in.mirostat_mu = &again;
      in.forced = sampled;
      in.generated_n = 12345;
      EXPECT_EQ(*sampler.sample({row.data()}, in), sampled);
      EXPECT_EQ(again, mu);
    }
    EXPECT_LE(different, kTokens / 200);
    EXPECT_NEAR(surprise / kTokens, tau, 0.1) << tau;
  }
}

// ---- repetitions

/// The losses by comparing at each earlier position and length.
std::vector<double> reference_dry(const std::vector<TokenId>& tokens, const SamplingExtra& extra,
                                  const std::vector<TokenId>& breakers, std::size_t vocab) {
  std::vector<double> loss(vocab, 0);
  const std::size_t n = tokens.size();
  const std::size_t first =
      extra.dry_penalty_last_n < 0 || n <= static_cast<std::size_t>(extra.dry_penalty_last_n)
          ? 0
          : n - static_cast<std::size_t>(extra.dry_penalty_last_n);
  for (std::size_t next = first + 1; next < n; ++next) {  // what followed tokens[.. next - 1]
    std::size_t m = 0;
    while (m < next - first && m < n - first && tokens[next - 1 - m] == tokens[n - 1 - m] &&
           std::find(breakers.begin(), breakers.end(), tokens[n - 1 - m]) == breakers.end()) {
      ++m;
    }
    if (m == 0 || static_cast<std::int64_t>(m) < extra.dry_allowed_length) continue;
    double& l = loss[static_cast<std::size_t>(tokens[next])];
    l = std::max(
        l, extra.dry_multiplier *
               std::pow(extra.dry_base,
                        static_cast<double>(m) - static_cast<double>(extra.dry_allowed_length)));
  }
  return loss;
}

TEST(Sampling, DryPenalty_WithRandomTexts_AgreesWithBruteForce) {
  std::mt19937 random(3);
  Dry dry;
  int penalised = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string last = std::to_string(static_cast<int>(random() % 60) - 1);
    const SamplingExtra extra =
        extra_of("{\"dry_multiplier\":0.8,\"dry_base\":1.3,\"dry_allowed_length\":" +
                 std::to_string(random() % 4) + ",\"dry_penalty_last_n\":" + last + "}");
    std::vector<TokenId> tokens(random() % 80);
    const std::uint32_t letters = 2 + random() % 4;
    for (TokenId& id : tokens) id = static_cast<TokenId>(random() % letters);
    std::vector<TokenId> breakers;
    if (random() % 2 == 0) breakers.push_back(static_cast<TokenId>(random() % letters));
    std::vector<float> logits(8, 10.0F);
    dry.penalise(tokens, extra, breakers, logits);
    const auto loss = reference_dry(tokens, extra, breakers, logits.size());
    for (std::size_t id = 0; id < logits.size(); ++id) {
      const double limited = std::min(loss[id], 0.8 * std::pow(1.3, 64));
      EXPECT_NEAR(10.0 - logits[id], limited, 1e-5 * (1 + limited)) << i << " " << id;
      penalised += loss[id] > 0;
    }
  }
  EXPECT_GT(penalised, 500);
}

// ---- banned texts

std::string text_of(const std::vector<TokenId>& ids) {
  const auto tokenizer = make_letter_tokenizer(97, kTestEnd);
  std::string text;
  for (const TokenId id : ids) text += tokenizer->token_bytes(id, false);
  return text;
}

TEST(Sampling, BannedStrings_WithRandomTexts_ForbidTheTokensThatCompleteThem) {
  const std::vector<std::string> token_texts = {"a", "b",     "ab", "abc", "bca",
                                                "c", "xabcx", "ca", "bc"};
  std::vector<grammar::TokenTable::Token> tokens;
  for (const std::string& token_bytes : token_texts) tokens.push_back({token_bytes, false});
  const auto table = grammar::TokenTable::make(tokens);
  std::mt19937 random(4);
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>{"abc"}, {"aa", "cab"}, {"b"}, {"abcabc", "cc"}, {"zz"}}) {
    const BannedTexts banned(table, texts);
    for (int i = 0; i < 300; ++i) {
      std::string before;
      for (std::size_t n = random() % 6; n > 0; --n)
        before += token_texts[random() % token_texts.size()];
      std::vector<TokenId> ids;
      banned.after(before.substr(before.size() - std::min(before.size(), banned.tail_bytes())),
                   ids);
      for (std::size_t id = 0; id < token_texts.size(); ++id) {
        const std::string after = before + token_texts[id];
        const bool completes = std::any_of(texts.begin(), texts.end(), [&](const auto& text) {
          const std::size_t at = after.find(
              text, before.size() >= text.size() - 1 ? before.size() - (text.size() - 1) : 0);
          return at != std::string::npos;
        });
        const bool named = std::find(ids.begin(), ids.end(), static_cast<TokenId>(id)) != ids.end();
        EXPECT_EQ(named, completes) << before << " + " << token_texts[id];
      }
    }
  }
}

// ---- in the engine

const char* const kExtras[] = {
    R"({"typical_p":0.6})",
    R"({"top_n_sigma":1.2,"xtc_probability":0.5,"xtc_threshold":0.02})",
    R"({"mirostat":2,"mirostat_tau":3})",
    R"({"mirostat":2,"mirostat_tau":2,"dry_multiplier":0.8,"banned_strings":["ab","q"]})",
    R"({"dry_multiplier":1.5,"dry_allowed_length":1,"dry_sequence_breakers":["e"]})",
    R"({"banned_strings":["a","bc","xyz","ll"]})",
    R"({"samplers":["top_k","temperature","xtc"],"xtc_probability":1,"xtc_threshold":0.001})",
    R"({"repeat_last_n":5,"logit_bias":{"7":3}})",
    R"({"thinking":{"tokens":6,"open":true,"marks":["<","zqz","zqz"]}})",
    R"({"mirostat":2,"thinking":{"tokens":9,"open":true,"marks":["<","zqz","zqz"]}})",
    R"({"thinking":{"tokens":2,"anywhere":true,"marks":["a","z","zqz"]}})",
    R"({"mirostat":2,"grammar":{"kind":"regex","source":"(q[a-z]{3}){20,40}"}})",
    R"({"banned_strings":["qa","bcd"],"grammar":{"kind":"regex","source":"(q[a-z]{3}){20,40}"}})"};

SequenceSpec spec_with(const char* extra, std::uint64_t n) {
  SequenceSpec spec = varied_spec(1, n);
  spec.sampling.extra = extra;
  spec.sampling.temperature = n % 6 == 5 ? 0.0F : 0.9F;
  spec.max_tokens = 40;
  spec.stops.clear();
  if (spec.prompt.size() > 40) spec.prompt.resize(40);
  return spec;
}

TEST(Sampling, Resume_AtAnyToken_GivesTheSameTokens) {
  int sampled = 0;
  for (const char* extra : kExtras) {
    for (std::uint64_t n = 0; n < 6; ++n) {
      const SequenceSpec spec = spec_with(extra, n);
      const Outcome whole = run_alone(spec);
      ASSERT_NE(whole.finish, wire::FinishReason::kError) << extra;
      sampled += static_cast<int>(whole.ids.size());
      for (std::size_t cut = 1; cut < whole.ids.size(); cut += 3) {
        SequenceSpec rest = spec;
        rest.committed.assign(whole.ids.begin(),
                              whole.ids.begin() + static_cast<std::ptrdiff_t>(cut));
        Outcome resumed = run_alone(rest);
        std::copy(rest.committed.begin(), rest.committed.end(), resumed.ids.begin());
        EXPECT_EQ(resumed, whole) << extra << " n " << n << " cut " << cut;
      }
    }
  }
  EXPECT_GT(sampled, 1000);
}

TEST(Sampling, Tokens_WithNeighboursAndPreemption_AreTheSame) {
  std::vector<SequenceSpec> specs;
  for (std::uint64_t n = 0; n < 30; ++n) {
    specs.push_back(spec_with(kExtras[n % std::size(kExtras)], n));
    specs.back().key = 100 + n;
  }
  for (const std::int32_t pages : {30, 7}) {
    ModelEngineConfig config = test_config();
    config.pages = pages;
    TestEngine t(config);
    std::vector<Outcome> out(specs.size());
    std::size_t next = 0;
    while (next < specs.size() || !t.engine->idle()) {
      while (next < specs.size() && t.engine->add(specs[next]).has_value()) ++next;
      gather(t.engine->step(), 100, out);
    }
    for (std::size_t i = 0; i < specs.size(); ++i) EXPECT_EQ(out[i], run_alone(specs[i])) << i;
  }
}

TEST(Sampling, BannedStrings_WhenSet_NeverAppear) {
  const SequenceSpec plain = spec_with("{}", 1);
  int hits = 0;
  for (std::uint64_t n = 0; n < 40; ++n) {
    SequenceSpec spec = spec_with(kExtras[5], n);
    const std::string text = text_of(run_alone(spec).ids);
    for (const char* banned : {"a", "bc", "xyz", "ll"}) {
      EXPECT_EQ(text.find(banned), std::string::npos) << text;
    }
    spec.sampling.extra.clear();
    hits += text_of(run_alone(spec).ids).find('a') != std::string::npos;
  }
  EXPECT_GT(hits, 20) << "without the ban they would have come";
}

// ---- thinking budgets

/// Tokens between the marks, as the gateway counts them.
std::int64_t reasoning_of(const std::vector<TokenId>& ids, bool* over) {
  chat::ThinkingMeter meter({"<", "zqz", "zqz", false}, true);
  for (const TokenId id : ids) meter.feed(text_of({id}));
  *over = meter.over();
  return meter.tokens();
}

TEST(Sampling, ThinkingBudget_WhenSet_IsExactToTheToken) {
  for (std::uint64_t n = 0; n < 24; ++n) {
    for (const std::int64_t budget : {0, 1, 7, 31}) {
      const std::string extra = R"({"thinking":{"open":true,"marks":["<","zqz","zqz"],"tokens":)" +
                                std::to_string(budget) + "}}";
      SequenceSpec spec = spec_with(extra.c_str(), n);
      spec.sampling.ignore_eos = true;
      const Outcome out = run_alone(spec);
      bool over = false;
      EXPECT_EQ(reasoning_of(out.ids, &over), budget) << text_of(out.ids);
      EXPECT_TRUE(over) << text_of(out.ids);
      // Up to there it is the text without a bound.
      spec.sampling.extra.clear();
      const Outcome free = run_alone(spec);
      EXPECT_TRUE(std::equal(free.ids.begin(), free.ids.begin() + budget, out.ids.begin()));
      EXPECT_EQ(reasoning_of(free.ids, &over), static_cast<std::int64_t>(free.ids.size()));
    }
  }
}

TEST(Sampling, ThinkingBudget_WithAGrammar_ObeysTheGrammar) {
  SequenceSpec spec = spec_with("{}", 1);
  spec.sampling.extra = R"({"grammar":{"kind":"regex","source":"[a-y]{20}"},)"
                        R"("thinking":{"tokens":3,"open":true,"marks":["<","zqz","zqz"]}})";
  const Outcome out = run_alone(spec);
  EXPECT_EQ(out.finish, wire::FinishReason::kStop);
  EXPECT_EQ(text_of(out.ids).find('z'), std::string::npos);
}

TEST(Sampling, Sequence_WhenEveryTokenIsBanned_EndsWithStop) {
  std::string letters;
  for (char c = 'a'; c <= 'z'; ++c)
    letters += std::string(letters.empty() ? "" : ",") + "\"" + c + "\"";
  SequenceSpec spec = spec_with("{}", 1);
  spec.sampling.extra = "{\"banned_strings\":[" + letters + "]}";
  spec.sampling.ignore_eos = false;
  spec.sampling.min_tokens = 0;
  const Outcome out = run_alone(spec);
  EXPECT_EQ(out.finish, wire::FinishReason::kStop);
  EXPECT_EQ(out.ids, std::vector<TokenId>{kTestEnd});
}

TEST(SamplingExtraText, SamplingExtra_WhenInvalid_IsRefusedWithTypedError) {
  for (const char* bad : {"[]",
                          "{",
                          "{\"typical_p\":2}",
                          "{\"typical_p\":\"x\"}",
                          "{\"mirostat\":1}",
                          "{\"mirostat\":\"2\"}",
                          "{\"samplers\":[]}",
                          "{\"samplers\":[\"top_k\",\"top_k\"]}",
                          "{\"samplers\":[\"magic\"]}",
                          "{\"samplers\":\"kt\"}",
                          "{\"banned_strings\":[\"\"]}",
                          "{\"banned_strings\":\"a\"}",
                          "{\"banned_strings\":[1]}",
                          "{\"dry_base\":0.5}",
                          "{\"dry_allowed_length\":1.5}",
                          "{\"repeat_last_n\":-2}",
                          "{\"xtc_probability\":1.5}",
                          "{\"logit_bias\":{\"97\":1}}",
                          "{\"logit_bias\":{\"-1\":1}}",
                          "{\"logit_bias\":{\"x\":1}}",
                          "{\"logit_bias\":{\"1\":\"y\"}}",
                          "{\"logit_bias\":{\"1\":2000}}",
                          "{\"logit_bias\":[1]}"}) {
    EXPECT_EQ(parse_extra(bad, 97).error().code, Errc::kInvalidRequest) << bad;
  }
  EXPECT_EQ(parse_extra("{\"magic\":1}", 97).error().code, Errc::kUnsupported);
  EXPECT_NE(parse_extra("{\"magic\":1}", 97).error().what.find("magic"), std::string::npos);
  for (const char* good : {"", "{}", "{\"grammar\":7}", "{\"typical_p\":null}", "{\"mirostat\":0}",
                           "{\"samplers\":[\"typical_p\"]}", "{\"logit_bias\":{\"96\":-1000}}"}) {
    EXPECT_TRUE(parse_extra(good, 97).has_value()) << good;
  }
  EXPECT_FALSE(extra_of("{\"typical_p\":1,\"xtc_probability\":0}").needs_sampler_chain());
}

}  // namespace
}  // namespace holdfast::engine::sampling_test
