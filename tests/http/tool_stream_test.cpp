// Goal: reasoning and tool calls reach the client as OpenAI's fields, and a client that comes back
// with any event's id gets exactly what it did not have yet, however tokens are cut into events
// then and now. Method: texts of each family, cut into tokens at random, with control tokens among
// them; the parts of a stream up to an event and of a second stream after it, against the parser on
// the whole text.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "control/gateway/common/render.h"
#include "control/gateway/http/sse.h"
#include "tests/http/http_peer.h"

namespace holdfast::gateway::tool_stream_test {
namespace {

using json = nlohmann::json;
using test::parse_events;
using test::SseEvent;
using Random = std::mt19937;

struct Token {
  std::string bytes;
  std::string special;  // of a control token
};
struct Case {
  Shape shape;
  wire::RequestInfo info;
  std::vector<Token> tokens;
  std::string text;  // as the parser gets it
};

struct StreamedMessage {
  std::string content;
  std::string reasoning;
  std::map<int, std::pair<std::string, std::string>> calls;  // name and id, arguments
  std::string finish;
  bool operator==(const StreamedMessage&) const = default;
};
std::ostream& operator<<(std::ostream& out, const StreamedMessage& h) {
  out << "<" << h.content << "> think <" << h.reasoning << "> " << h.finish;
  for (const auto& [i, call] : h.calls) out << " " << i << ":" << call.first << "(" << call.second;
  return out;
}

void add_events(const std::vector<SseEvent>& events, StreamedMessage& message) {
  for (const SseEvent& event : events) {
    if (event.data == "[DONE]") continue;
    const json data = json::parse(event.data);
    for (const json& choice : data["choices"]) {
      const json& delta = choice["delta"];
      message.content += delta.value("content", "");
      message.reasoning += delta.value("reasoning_content", "");
      for (const json& call : delta.value("tool_calls", json::array())) {
        auto& [name, arguments] = message.calls[call["index"].get<int>()];
        if (call["function"].contains("name")) {
          EXPECT_EQ(name, "") << "a call is opened once";
          name = call["function"]["name"].get<std::string>() + " " + call["id"].get<std::string>();
          EXPECT_EQ(call["type"], "function");
        }
        arguments += call["function"]["arguments"].get<std::string>();
      }
      if (delta.contains("function_call")) {
        auto& [name, arguments] = message.calls[0];
        name += delta["function_call"].value("name", "");
        arguments += delta["function_call"]["arguments"].get<std::string>();
      }
      if (choice["finish_reason"].is_string()) message.finish = choice["finish_reason"];
    }
  }
}

const char* const kWords[] = {"Hm. ", "\n", " ", "yes ", "é€", "{\"a\": [1, \"}\"]}", "x < y "};

std::string random_text(Random& random, chat::ToolFormat format) {
  const auto words = [&](std::size_t most) {
    std::string text;
    for (std::size_t n = random() % (most + 1); n > 0; --n) {
      text += kWords[random() % std::size(kWords)];
    }
    return text;
  };
  std::string text;
  if (random() % 3 == 0) text += "<think>" + words(3) + "</think>";
  text += words(2);
  for (std::size_t n = random() % 3; n > 0; --n) {
    const std::string arguments = "{\"q\": \"" + std::string(random() % 5, 'z') + "\"}";
    if (format == chat::ToolFormat::kMistral) {
      text += "[TOOL_CALLS]f" + std::to_string(n) + "[ARGS]" + arguments;
    } else if (format == chat::ToolFormat::kGlm) {
      text +=
          "<tool_call>f" + std::to_string(n) + "\n<arg_key>q</arg_key>\n<arg_value>" + words(3) +
          "</arg_value>\n<arg_key>n</arg_key>\n<arg_value>12</arg_value>\n</tool_call>" + words(1);
    } else if (format == chat::ToolFormat::kQwenCoder) {
      text += "<tool_call>\n<function=f" + std::to_string(n) + ">\n<parameter=q>\n" + words(3) +
              "\n</parameter>\n<parameter=n>\n12\n</parameter>\n</function>\n</tool_call>" +
              words(1);
    } else {
      text += "<tool_call>{\"name\": \"f" + std::to_string(n) + "\", \"arguments\": " + arguments +
              "}</tool_call>" + words(1);
    }
  }
  if (random() % 4 == 0) text += "<tool_call>{\"na";
  return text;
}

Case random_case(unsigned seed) {
  Random random(seed);
  Case out;
  constexpr chat::ToolFormat kFormats[] = {chat::ToolFormat::kHermes, chat::ToolFormat::kMistral,
                                           chat::ToolFormat::kGlm, chat::ToolFormat::kQwenCoder};
  const auto format = kFormats[seed % 4];
  out.shape.api = Api::kChat;
  out.shape.output = std::string(chat::tool_format_name(format)) + "+think";
  out.shape.tools = random() % 4 != 0;
  out.shape.json_arguments = {{"f1", {"n"}}};
  out.shape.function_call = seed % 5 == 0;
  out.info.request_id = "01REQ.x";
  out.info.model = "m";
  out.info.sampling.logprobs = random() % 4 == 0 ? 0 : -1;
  out.info.state = wire::RequestState::kSucceeded;
  out.text = random_text(random, format);
  const std::string mark = "[TOOL_CALLS]";
  for (std::size_t at = 0; at < out.text.size();) {
    if (out.text.compare(at, mark.size(), mark) == 0) {  // a token of its own
      out.tokens.push_back({"", mark});
      at += mark.size();
      continue;
    }
    const std::size_t n = std::min({random() % 5, out.text.size() - at,
                                    std::max<std::size_t>(out.text.find(mark, at), at) - at});
    out.tokens.push_back({out.text.substr(at, n), ""});
    at += n;
  }
  if (out.tokens.empty()) out.tokens.push_back({"", ""});
  wire::ChoiceInfo choice;
  choice.finish = wire::FinishReason::kStop;
  choice.next_index = static_cast<std::int64_t>(out.tokens.size());
  out.info.choices = {choice};
  return out;
}

template <class Take>
void feed(const Case& c, Random& random, const Take& take) {
  for (std::size_t next = 0; next < c.tokens.size();) {
    const std::size_t n = 1 + random() % std::min<std::size_t>(4, c.tokens.size() - next);
    wire::Event event;
    event.start = static_cast<std::int64_t>(next);
    for (std::size_t k = next; k < next + n; ++k) {
      event.ids.push_back(1);
      event.bytes += c.tokens[k].bytes;
      event.ends.push_back(static_cast<std::uint32_t>(event.bytes.size()));
      if (c.tokens[k].special.empty()) continue;
      event.special.resize(n);
      event.special[k - next] = c.tokens[k].special;
    }
    next += n;
    take(event);
  }
}

std::vector<SseEvent> run(const Case& c, std::vector<std::int64_t> resume_from, Random& random) {
  StreamRenderer renderer(c.shape, c.info, std::move(resume_from));
  std::string out = renderer.open();
  feed(c, random, [&](const wire::Event& event) { out += renderer.on_event(event); });
  return parse_events(out + renderer.on_fin(c.info));
}

StreamedMessage expected(const Case& c) {
  chat::OutputParser parser(*parse_options(c.shape));
  StreamedMessage message;
  const auto add = [&](const chat::OutputDelta& delta) {
    message.content += delta.content;
    message.reasoning += delta.reasoning;
    for (const chat::CallDelta& call : delta.calls) {
      const bool is_old = c.shape.function_call;
      if (is_old && call.index > 0) continue;
      auto& [name, arguments] = message.calls[call.index];
      if (!call.name.empty()) {
        name = call.name + (is_old ? "" : " " + call_id(c.info.request_id, 0, call.index));
      }
      arguments += call.arguments;
    }
  };
  add(parser.feed(c.text));
  add(parser.finish());
  message.finish = parser.calls() == 0     ? "stop"
                   : c.shape.function_call ? "function_call"
                                           : "tool_calls";
  return message;
}

TEST(ToolStream, ToolCallStream_WhenResumedAtAnyEvent_LosesAndRepeatsNothing) {
  int calls = 0, thoughts = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    const Case c = random_case(seed);
    Random random(seed + 77);
    const auto events = run(c, {}, random);
    const StreamedMessage want = expected(c);
    StreamedMessage whole;
    add_events(events, whole);
    ASSERT_EQ(whole, want) << "seed " << seed << ": " << c.text;
    calls += static_cast<int>(want.calls.size());
    thoughts += !want.reasoning.empty();
    for (std::size_t at = 0; at < events.size(); ++at) {
      const auto id = parse_event_id(events[at].id);
      ASSERT_TRUE(id.has_value());
      StreamedMessage parts;
      add_events({events.begin(), events.begin() + static_cast<long>(at) + 1}, parts);
      add_events(run(c, id->sent, random), parts);
      ASSERT_EQ(parts, want) << "seed " << seed << " event " << at << " id " << events[at].id
                             << ": " << c.text;
    }
  }
  EXPECT_GT(calls, 100);
  EXPECT_GT(thoughts, 50);
}

TEST(ToolStream, ToolCallReply_WhenNotStreamed_HasTheSameParts) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Case c = random_case(seed);
    Random random(seed);
    Collector collector(c.shape, c.info);
    feed(c, random, [&](const wire::Event& event) { collector.on_event(event); });
    const json answer = json::parse(collector.on_fin(c.info).body);
    const json& message = answer["choices"][0]["message"];
    const StreamedMessage want = expected(c);
    const bool only_calls = want.content.empty() && !want.calls.empty();
    EXPECT_EQ(message["content"].is_null(), only_calls) << c.text;
    if (!only_calls) {
      EXPECT_EQ(message["content"], want.content);
    }
    EXPECT_EQ(message.value("reasoning_content", ""), want.reasoning);
    const json calls = message.value("tool_calls", json::array());
    const bool is_old = c.shape.function_call;
    EXPECT_EQ(message.contains("function_call"), is_old && !want.calls.empty());
    if (message.contains("function_call")) {
      EXPECT_EQ(message["function_call"]["name"], want.calls.at(0).first);
      EXPECT_EQ(message["function_call"]["arguments"], want.calls.at(0).second);
    }
    ASSERT_EQ(calls.size(), is_old ? 0 : want.calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto& [name, arguments] = want.calls.at(static_cast<int>(i));
      EXPECT_EQ(
          calls[i]["function"]["name"].get<std::string>() + " " + calls[i]["id"].get<std::string>(),
          name);
      EXPECT_EQ(calls[i]["function"]["arguments"], arguments);
    }
    EXPECT_EQ(answer["choices"][0]["finish_reason"], want.finish);
  }
}

TEST(ToolStream, ToolCallIds_AreUniqueWithNineCharacters) {
  std::set<std::string> ids;
  for (int choice = 0; choice < 10; ++choice) {
    for (int call = 0; call < 10; ++call) {
      const std::string id = call_id("01REQ", choice, call);
      EXPECT_EQ(id.size(), 9u);
      EXPECT_TRUE(
          std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c); }));
      ids.insert(id);
    }
  }
  EXPECT_EQ(ids.size(), 100u);
  EXPECT_EQ(call_id("01REQ", 1, 2), call_id("01REQ", 1, 2));
}

TEST(ToolStream, OutputParser_WithoutToolsOrChannels_IsNotUsed) {
  Shape shape;
  shape.api = Api::kChat;
  shape.output = "none";
  shape.tools = true;
  EXPECT_FALSE(parse_options(shape).has_value());
  shape.output = "hermes";
  EXPECT_TRUE(parse_options(shape).has_value());
  shape.tools = false;
  EXPECT_FALSE(parse_options(shape).has_value());
  shape.output = "harmony";
  EXPECT_TRUE(parse_options(shape).has_value()) << "its channels are no text";
  shape.api = Api::kCompletions;
  EXPECT_FALSE(parse_options(shape).has_value());
}

}  // namespace
}  // namespace holdfast::gateway::tool_stream_test
