// Goal: a client that comes back with any event's id gets exactly the text that it did not have
// yet, however the tokens are cut into events then and now. Method: property test over seeds.
// Random tokens (characters of two to four bytes split over tokens, bytes that are no UTF-8, parts
// of stop sequences, empty tokens) with random stop sequences go through a StreamRenderer in random
// events; then, for the id of every event and for every index, a second renderer gets the same
// tokens in other events. Text before + text after must be the whole text.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "control/gateway/common/render.h"
#include "control/gateway/http/sse.h"
#include "shared/base/bytes.h"
#include "tests/http/http_peer.h"

namespace holdfast::gateway::resume_test {
namespace {

using json = nlohmann::json;
using test::parse_events;
using test::SseEvent;
using test::text_of;
using Random = std::mt19937;

std::size_t random_below(Random& random, std::size_t n) {
  return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
}

struct Case {
  Shape shape;
  wire::RequestInfo info;                             // as at the end
  std::vector<std::vector<std::string>> token_bytes;  // per choice
  std::vector<std::string> first_extra;               // per choice, of its first token; or empty
};

/// Returns a text over a small alphabet, so that stop sequences begin often, cut into tokens at
/// random bytes.
std::vector<std::string> random_tokens(Random& random) {
  static const std::string kParts[] = {
      "a",    "ab",       "ba",   "\n",  "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
      "\xff", "\xe2\x82", " end", "b\n", "\""};
  std::string text;
  const std::size_t parts = random_below(random, 14);
  for (std::size_t i = 0; i < parts; ++i) text += kParts[random_below(random, std::size(kParts))];
  std::vector<std::string> token_bytes;
  while (!text.empty()) {
    const std::size_t n = std::min(text.size(), random_below(random, 4));  // 0: an empty token
    token_bytes.push_back(text.substr(0, n));
    text.erase(0, n);
  }
  return token_bytes;
}

/// Cuts the tokens where a stop sequence is complete, as the worker does.
void stop_as_worker(const std::vector<std::string>& stops, std::vector<std::string>* token_bytes,
                    wire::FinishReason* finish) {
  text::Releaser releaser(stops);
  for (std::size_t i = 0; i < token_bytes->size(); ++i) {
    releaser.feed((*token_bytes)[i]);
    if (releaser.stopped()) {
      token_bytes->resize(i + 1);
      *finish = wire::FinishReason::kStop;
      return;
    }
  }
}

Case random_case(unsigned seed) {
  Random random(seed);
  static const std::vector<std::string> kStops[] = {{},
                                                    {"ab"},
                                                    {"\n\n", "aba"},
                                                    {"aaa",
                                                     "\xc3\xa9"
                                                     "a"},
                                                    {"end", "\xf0\x9f\x98\x80\n", "b\n"}};
  Case out;
  out.shape.api = random_below(random, 2) == 0 ? Api::kChat : Api::kCompletions;
  out.shape.include_usage = random_below(random, 2) == 0;
  out.shape.choices = static_cast<int>(1 + random_below(random, 3));
  out.info.request_id = "01REQ.x";
  out.info.model = "m";
  out.info.max_tokens = 50;
  out.info.stops = kStops[random_below(random, std::size(kStops))];
  out.info.echo = out.shape.api == Api::kCompletions && random_below(random, 3) == 0;
  if (out.info.echo) out.info.prompt_text = {"PROMPT "};
  out.info.sampling.logprobs = random_below(random, 4) == 0 ? 0 : -1;
  out.info.state = wire::RequestState::kSucceeded;
  for (int c = 0; c < out.shape.choices; ++c) {
    auto token_bytes = random_tokens(random);
    if (token_bytes.empty()) token_bytes.push_back("a");
    wire::ChoiceInfo choice;
    choice.choice = c;
    choice.finish = wire::FinishReason::kLength;
    stop_as_worker(out.info.stops, &token_bytes, &choice.finish);
    choice.next_index = static_cast<std::int64_t>(token_bytes.size());
    out.info.choices.push_back(choice);
    out.token_bytes.push_back(std::move(token_bytes));
  }
  return out;
}

/// Returns n tokens of a choice from `start` on.
wire::Event event_of(const Case& c, std::size_t choice, std::size_t start, std::size_t n) {
  wire::Event event;
  event.choice = static_cast<std::int32_t>(choice);
  event.start = static_cast<std::int64_t>(start);
  for (std::size_t k = start; k < start + n; ++k) {
    event.ids.push_back(c.info.max_tokens == 0 ? wire::kScoresToken : 1);
    event.bytes += c.token_bytes[choice][k];
    event.ends.push_back(static_cast<std::uint32_t>(event.bytes.size()));
    if (!c.first_extra.empty()) event.extra.push_back(k == 0 ? c.first_extra[choice] : "");
  }
  return event;
}

/// Returns a whole stream, its events cut by `random`.
std::string run(const Case& c, std::vector<std::int64_t> resume_from, Random& random) {
  StreamRenderer renderer(c.shape, c.info, std::move(resume_from));
  std::string out = renderer.open();
  std::vector<std::size_t> next(c.token_bytes.size());
  for (;;) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < next.size(); ++i) {
      if (next[i] < c.token_bytes[i].size()) open.push_back(i);
    }
    if (open.empty()) break;
    const std::size_t i = open[random_below(random, open.size())];
    const std::size_t n =
        1 + random_below(random, std::min<std::size_t>(4, c.token_bytes[i].size() - next[i]));
    out += renderer.on_event(event_of(c, i, next[i], n));
    next[i] += n;
  }
  return out + renderer.on_fin(c.info);
}

/// Returns the text by the rule itself, without events.
std::string expected_text(const Case& c, std::size_t choice) {
  text::Releaser releaser(c.info.stops);
  std::string out = c.info.echo ? "PROMPT " : "";
  for (const std::string& token : c.token_bytes[choice]) out += releaser.feed(token);
  return releaser.stopped() ? out : out + releaser.finish();
}

std::size_t count_logs(const std::vector<SseEvent>& events) {
  std::size_t n = 0;
  for (const SseEvent& event : events) {
    if (event.data == "[DONE]") continue;
    const json chunk = json::parse(event.data);
    for (const json& choice : chunk["choices"]) {
      const json& logs = choice["logprobs"];
      if (logs.is_object())
        n += logs.contains("tokens") ? logs["tokens"].size() : logs["content"].size();
    }
  }
  return n;
}

void check_resume(const Case& c, const std::vector<SseEvent>& events, std::size_t at,
                  Random& random, unsigned seed) {
  const auto id = parse_event_id(events[at].id);
  ASSERT_TRUE(id.has_value()) << events[at].id;
  EXPECT_EQ(id->request_id, c.info.request_id);
  const std::vector<SseEvent> before(events.begin(), events.begin() + static_cast<long>(at) + 1);
  const auto after = parse_events(run(c, id->sent, random));
  for (std::size_t i = 0; i < c.token_bytes.size(); ++i) {
    const int choice = static_cast<int>(i);
    EXPECT_EQ(text_of(before, choice) + text_of(after, choice), expected_text(c, i))
        << "seed " << seed << " event " << at << " id " << events[at].id << " choice " << i;
  }
  EXPECT_EQ(after.back().data, "[DONE]");
  EXPECT_EQ(after.back().id, events.back().id);
  EXPECT_EQ(count_logs(before) + count_logs(after), count_logs(events)) << "seed " << seed;
}

TEST(Resume, Resume_AfterAnyEvent_GivesTheRestOfTheText) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Case c = random_case(seed);
    Random random(seed + 1'000'000);
    const auto events = parse_events(run(c, {}, random));
    for (std::size_t i = 0; i < c.token_bytes.size(); ++i) {
      const std::string text = text_of(events, static_cast<int>(i));
      EXPECT_EQ(text, expected_text(c, i)) << seed;
      EXPECT_TRUE(is_valid_utf8(text)) << seed;
    }
    for (std::size_t at = 0; at < events.size(); ++at) check_resume(c, events, at, random, seed);
    if (HasFailure()) return;
  }
}

TEST(Resume, Resume_WhenRepeated_GivesTheSameText) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const Case c = random_case(seed);
    Random random(seed);
    std::vector<SseEvent> got;
    std::vector<std::int64_t> resume_from;
    for (int leg = 0; leg < 4; ++leg) {  // the client is cut off at a random event each time
      const auto events = parse_events(run(c, resume_from, random));
      const std::size_t n = leg == 3 ? events.size() : 1 + random_below(random, events.size());
      got.insert(got.end(), events.begin(), events.begin() + static_cast<long>(n));
      resume_from = parse_event_id(got.back().id)->sent;
    }
    for (std::size_t i = 0; i < c.token_bytes.size(); ++i) {
      ASSERT_EQ(text_of(got, static_cast<int>(i)), expected_text(c, i)) << "seed " << seed;
    }
  }
}

TEST(Resume, EventIds_WhileStreaming_RiseToTheTokenCount) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Case c = random_case(seed);
    Random random(seed);
    std::vector<std::int64_t> last(c.token_bytes.size());
    for (const SseEvent& event : parse_events(run(c, {}, random))) {
      const auto id = parse_event_id(event.id);
      ASSERT_TRUE(id && id->sent.size() == last.size());
      for (std::size_t i = 0; i < last.size(); ++i) EXPECT_GE(id->sent[i], last[i]);
      last = id->sent;
    }
    for (std::size_t i = 0; i < last.size(); ++i) {
      EXPECT_EQ(last[i], static_cast<std::int64_t>(c.token_bytes[i].size()));
    }
  }
}

TEST(Resume, StreamEvents_HaveIdAndData) {
  // openai's Python client takes any empty line after an id for an event: none may come without
  // data.
  const Case c = random_case(5);
  Random random(5);
  const std::string stream = run(c, {}, random);
  std::size_t at = 0;
  while (at < stream.size()) {
    const std::size_t end = stream.find("\n\n", at);
    ASSERT_NE(end, std::string::npos);
    const std::string block = stream.substr(at, end - at);
    EXPECT_NE(block.find("data: "), std::string::npos) << block;
    EXPECT_NE(block.find("id: "), std::string::npos) << block;
    at = end + 2;
  }
  EXPECT_TRUE(stream.starts_with("retry: 250\nid: "));
  EXPECT_TRUE(kKeepAliveComment.starts_with(':') && kKeepAliveComment.ends_with('\n') &&
              !kKeepAliveComment.ends_with("\n\n"));
}

TEST(Resume, Echo_WithoutGeneration_IsSentOnceWithOneId) {
  Case c;
  c.shape.choices = 2;
  c.info.request_id = "r";
  c.info.echo = true;
  c.info.max_tokens = 0;
  c.info.prompt_text = {"one", "two"};
  c.info.state = wire::RequestState::kSucceeded;
  c.info.choices = {{0, 0, 0, wire::FinishReason::kLength, "", ""},
                    {1, 1, 0, wire::FinishReason::kLength, "", ""}};
  c.token_bytes.resize(2);
  Random random(1);
  const auto events = parse_events(run(c, {}, random));
  EXPECT_EQ(text_of(events, 0), "one");
  EXPECT_EQ(text_of(events, 1), "two");
  const auto again = parse_events(run(c, parse_event_id(events[0].id)->sent, random));
  EXPECT_EQ(text_of(again, 0) + text_of(again, 1), "");
}

/// Returns a text of 3 tokens with scores of its prompt, or the scores alone.
Case scored_case(bool alone) {
  Case c;
  c.shape.choices = 2;
  c.info.request_id = "r";
  c.info.echo = true;
  c.info.max_tokens = alone ? 0 : 3;
  c.info.sampling.logprobs = c.info.sampling.prompt_logprobs = 0;
  c.info.prompt_text = {"ab", "cd"};
  c.info.state = wire::RequestState::kSucceeded;
  for (std::int32_t i = 0; i < 2; ++i) {
    wire::PromptScores scores;
    scores.ids = {1, 2};
    scores.scores = {{-1.0F - static_cast<float>(i), 1}};
    scores.token_bytes = {{1, {i == 0 ? "a" : "c", false}}, {2, {i == 0 ? "b" : "d", false}}};
    c.info.choices.push_back({i, i, alone ? 1 : 3, wire::FinishReason::kLength, "", ""});
    c.token_bytes.push_back(alone ? std::vector<std::string>{""}
                                  : std::vector<std::string>{"S", "TO", "é"});
    c.first_extra.push_back(wire::with_prompt_scores(alone ? "" : R"({"logprob":-9})", scores));
  }
  c.info.stops = {"STOP"};  // the first token is held back until the third has come
  return c;
}

TEST(Resume, PromptLogprobs_WhenStreamIsCutAnywhere_AreSentOnce) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Case c = scored_case(seed % 2 == 0);
    const std::size_t tokens = seed % 2 == 0 ? 2 : 5;
    Random random(seed);
    const auto events = parse_events(run(c, {}, random));
    EXPECT_EQ(text_of(events, 0), seed % 2 == 0 ? "ab" : "abSTOé");
    EXPECT_EQ(text_of(events, 1), seed % 2 == 0 ? "cd" : "cdSTOé");
    EXPECT_EQ(count_logs(events), 2 * tokens);
    for (std::size_t at = 0; at < events.size(); ++at) {
      const std::vector<SseEvent> before(events.begin(),
                                         events.begin() + static_cast<long>(at) + 1);
      const auto after = parse_events(run(c, parse_event_id(events[at].id)->sent, random));
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(text_of(before, i) + text_of(after, i), text_of(events, i)) << seed << " " << at;
      }
      EXPECT_EQ(count_logs(before) + count_logs(after), 2 * tokens) << seed << " " << at;
    }
  }
}

TEST(Resume, PromptLogprobs_WithoutGeneration_CountNoCompletionToken) {
  const Case c = scored_case(true);
  Random random(1);
  const auto events = parse_events(run(c, {}, random));
  EXPECT_EQ(events.back().id, "r.1,1");
  Collector collector(c.shape, c.info);
  for (std::int32_t i = 0; i < 2; ++i)
    collector.on_event(event_of(c, static_cast<std::size_t>(i), 0, 1));
  const json body = json::parse(collector.on_fin(c.info).body);
  EXPECT_EQ(body["usage"]["completion_tokens"], 0);
  EXPECT_EQ(body["choices"][1]["text"], "cd");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][1]["logprobs"],
            json::parse(R"({"tokens":["c","d"],"token_logprobs":[null,-2.0],
                            "top_logprobs":[null,{}],"text_offset":[0,1]})"));
}

TEST(Resume, Reply_WhenNotStreamed_HasTheSameText) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Case c = random_case(seed);
    Collector collector(c.shape, c.info);
    for (std::size_t i = 0; i < c.token_bytes.size(); ++i) {
      wire::Event event;
      event.choice = static_cast<std::int32_t>(i);
      for (const std::string& token : c.token_bytes[i]) {
        event.ids.push_back(1);
        event.bytes += token;
        event.ends.push_back(static_cast<std::uint32_t>(event.bytes.size()));
      }
      collector.on_event(event);
    }
    const Response response = collector.on_fin(c.info);
    ASSERT_EQ(response.status, 200);
    const json body = json::parse(response.body);
    for (std::size_t i = 0; i < c.token_bytes.size(); ++i) {
      const json& choice = body["choices"][i];
      EXPECT_EQ(c.shape.api == Api::kChat ? choice["message"]["content"] : choice["text"],
                expected_text(c, i));
    }
  }
}

TEST(EventId, EventId_WhenMalformed_IsRefused) {
  for (const char* bad : {"", "a", ".1", "a.", "a.b", "a.1,", "a.-1", "a.1,,2", "a.1 ", "a b.1",
                          "a.99999999999999999999", "\xff.1"}) {
    EXPECT_FALSE(parse_event_id(bad).has_value()) << bad;
  }
  EXPECT_EQ(parse_event_id("a.b.3,4")->request_id, "a.b");
  EXPECT_EQ(parse_event_id("a.b.3,4")->sent, (std::vector<std::int64_t>{3, 4}));
}

}  // namespace
}  // namespace holdfast::gateway::resume_test
