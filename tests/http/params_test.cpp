// Goal: bodies mean what OpenAI says they mean, and a wrong one is refused with its parameter's
// name. Method: tables of bodies; the SUBMIT that results, or the error's `param`.
#include "control/gateway/common/params.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/gateway/common/model_binding.h"
#include "control/gateway/http/json_body.h"
#include "shared/chat/output_parser.h"
#include "shared/sampling/extra.h"

namespace holdfast::gateway::params_test {
namespace {

using json = nlohmann::ordered_json;

struct Outcome {
  bool ok = false;
  Generation generation;
  FieldError error;
};

Outcome completion(const std::string& body) {
  Outcome out;
  json parsed;
  out.ok = parse_json_object(body, &parsed, &out.error) &&
           parse_completion(parsed, {}, &out.generation, &out.error);
  return out;
}

Outcome chat(const std::string& body) {
  Outcome out;
  json parsed;
  out.ok = parse_json_object(body, &parsed, &out.error) &&
           parse_chat(parsed, {}, &out.generation, &out.error);
  return out;
}

TEST(Params, Completion_WithoutOptionalFields_HasOpenAiDefaults) {
  const Outcome out = completion(R"({"model":"m","prompt":"hi"})");
  ASSERT_TRUE(out.ok) << out.error.message;
  const wire::Submit& s = out.generation.submit;
  EXPECT_EQ(s.model, "m");
  ASSERT_EQ(s.prompts.size(), 1u);
  EXPECT_EQ(s.prompts[0].text, "hi");
  EXPECT_EQ(s.max_tokens, 16);
  EXPECT_EQ(s.n, 1);
  EXPECT_FLOAT_EQ(s.sampling.temperature, 1);
  EXPECT_FLOAT_EQ(s.sampling.top_p, 1);
  EXPECT_EQ(s.sampling.logprobs, -1);
  EXPECT_FALSE(s.seed_given);
  EXPECT_FALSE(s.echo);
  EXPECT_FALSE(out.generation.shape.stream);
}

TEST(Params, SamplingParameters_WhenAllAreGiven_ReachTheSubmit) {
  const Outcome out = completion(
      R"({"model":"m","prompt":["a","b"],"max_tokens":5,"temperature":0.5,"top_p":0.9,"n":2,
          "stream":true,"stream_options":{"include_usage":true},"stop":["x","y"],"seed":-3,
          "echo":true,"logprobs":2,"presence_penalty":0.25,"frequency_penalty":-0.5,"user":"u",
          "top_k":40,"min_p":0.1,"ignore_eos":true,"repetition_penalty":1.5,"min_tokens":2,
          "priority":"batch"})");
  ASSERT_TRUE(out.ok) << out.error.message;
  const wire::Submit& s = out.generation.submit;
  EXPECT_EQ(s.prompts.size(), 2u);
  EXPECT_EQ(s.max_tokens, 5);
  EXPECT_EQ(s.n, 2);
  EXPECT_EQ(out.generation.shape.choices, 4);
  EXPECT_EQ(s.sampling.seed, static_cast<std::uint64_t>(-3));
  EXPECT_TRUE(s.seed_given && s.echo && s.sampling.ignore_eos);
  EXPECT_EQ(s.sampling.logprobs, 2);
  EXPECT_EQ(s.sampling.top_k, 40);
  EXPECT_EQ(s.sampling.min_tokens, 2);
  EXPECT_FLOAT_EQ(s.sampling.min_p, 0.1f);
  EXPECT_FLOAT_EQ(s.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(s.priority, wire::PriorityClass::kBatch);
  EXPECT_EQ(s.stops, (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(out.generation.shape.stream && out.generation.shape.include_usage);
  EXPECT_TRUE(out.generation.ignored.empty());
}

TEST(Params, PromptLogprobs_WithEachFieldCombination_AreRequested) {
  const auto parsed_logprobs = [](const char* fields) {
    const Outcome out = completion(R"({"model":"m","prompt":"a",)" + std::string(fields) + "}");
    EXPECT_TRUE(out.ok) << out.error.message;
    return std::pair(out.generation.submit.sampling.prompt_logprobs,
                     out.generation.shape.prompt_logprobs);
  };
  using Pair = std::pair<std::int32_t, int>;
  EXPECT_EQ(parsed_logprobs(R"("logprobs":2)"), Pair(-1, -1));
  EXPECT_EQ(parsed_logprobs(R"("echo":true)"), Pair(-1, -1));
  EXPECT_EQ(parsed_logprobs(R"("echo":true,"logprobs":2,"stream":true)"), Pair(2, -1));
  EXPECT_EQ(parsed_logprobs(R"("echo":true,"n":1,"best_of":3)"), Pair(-1, -1))
      << "for the choice alone";
  EXPECT_EQ(parsed_logprobs(R"("prompt_logprobs":0)"), Pair(0, 0));
  EXPECT_EQ(parsed_logprobs(R"("prompt_logprobs":3,"echo":true,"logprobs":1)"), Pair(3, 3));
  EXPECT_EQ(parsed_logprobs(R"("prompt_logprobs":1,"echo":true,"logprobs":4)"), Pair(4, 1));
  EXPECT_EQ(parsed_logprobs(R"("prompt_logprobs":1,"max_tokens":0)"), Pair(1, 1));
  const Outcome talk =
      chat(R"({"model":"m","messages":[{"role":"user","content":"a"}],"prompt_logprobs":5})");
  EXPECT_EQ(talk.generation.submit.sampling.prompt_logprobs, 5);
  EXPECT_EQ(decode_shape(encode_shape(talk.generation.shape)).prompt_logprobs, 5);
}

TEST(Params, Prompt_WithTokenIdLists_IsAccepted) {
  EXPECT_EQ(completion(R"({"model":"m","prompt":[1,2,3]})").generation.submit.prompts[0].ids,
            (std::vector<wire::TokenId>{1, 2, 3}));
  const auto two = completion(R"({"model":"m","prompt":[[1],[2,3]]})").generation.submit.prompts;
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[1].ids, (std::vector<wire::TokenId>{2, 3}));
}

TEST(Params, CompletionBody_WhenInvalid_NamesTheParameter) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt":"a"})", "model"},
      {R"({"model":"","prompt":"a"})", "model"},
      {R"({"model":7,"prompt":"a"})", "model"},
      {R"({"model":"m"})", "prompt"},
      {R"({"model":"m","prompt":7})", "prompt"},
      {R"({"model":"m","prompt":[]})", "prompt"},
      {R"({"model":"m","prompt":["a",1]})", "prompt"},
      {R"({"model":"m","prompt":[1,"a"]})", "prompt"},
      {R"({"model":"m","prompt":[1,-1]})", "prompt"},
      {R"({"model":"m","prompt":[1.5]})", "prompt"},
      {R"({"model":"m","prompt":[2147483648]})", "prompt"},
      {R"({"model":"m","prompt":[[1],[]]})", "prompt"},
      {R"({"model":"m","prompt":"a","max_tokens":0})", "max_tokens"},
      {R"({"model":"m","prompt":"a","max_tokens":-1})", "max_tokens"},
      {R"({"model":"m","prompt":"a","prompt_logprobs":-1})", "prompt_logprobs"},
      {R"({"model":"m","prompt":"a","prompt_logprobs":21})", "prompt_logprobs"},
      {R"({"model":"m","prompt":"a","prompt_logprobs":1,"stream":true})", "prompt_logprobs"},
      {R"({"model":"m","prompt":"a","max_tokens":1.5})", "max_tokens"},
      {R"({"model":"m","prompt":"a","max_tokens":"5"})", "max_tokens"},
      {R"({"model":"m","prompt":"a","max_tokens":18446744073709551615})", "max_tokens"},
      {R"({"model":"m","prompt":"a","temperature":2.1})", "temperature"},
      {R"({"model":"m","prompt":"a","temperature":-0.1})", "temperature"},
      {R"({"model":"m","prompt":"a","temperature":"hot"})", "temperature"},
      {R"({"model":"m","prompt":"a","top_p":1.1})", "top_p"},
      {R"({"model":"m","prompt":"a","top_k":-2})", "top_k"},
      {R"({"model":"m","prompt":"a","n":0})", "n"},
      {R"({"model":"m","prompt":"a","n":129})", "n"},
      {R"({"model":"m","prompt":"a","n":true})", "n"},
      {R"({"model":"m","prompt":"a","stop":7})", "stop"},
      {R"({"model":"m","prompt":"a","stop":[""]})", "stop"},
      {R"({"model":"m","prompt":"a","stop":["a",1]})", "stop"},
      {R"({"model":"m","prompt":"a","stop":["1","2","3","4","5",)"
       R"("6","7","8","9","a","b","c","d","e","f","g","h"]})",
       "stop"},
      {R"({"model":"m","prompt":"a","stream":1})", "stream"},
      {R"({"model":"m","prompt":"a","stream_options":{"include_usage":true}})", "stream_options"},
      {R"({"model":"m","prompt":"a","stream":true,"stream_options":{"include_usage":1}})",
       "stream_options.include_usage"},
      {R"({"model":"m","prompt":"a","seed":1.5})", "seed"},
      {R"({"model":"m","prompt":"a","logprobs":21})", "logprobs"},
      {R"({"model":"m","prompt":"a","n":3,"best_of":2})", "best_of"},
      {R"({"model":"m","prompt":"a","best_of":2,"stream":true})", "best_of"},
      {R"({"model":"m","prompt":"a","presence_penalty":3})", "presence_penalty"},
      {R"({"model":"m","prompt":"a","priority":"high"})", "priority"},
      {R"({"model":"m","prompt":"a","user":5})", "user"},
      {R"({"model":"m","prompt":"a",)", ""},
      {R"(["model"])", ""},
      {"{\"model\":\"\xff\"}", ""},
      {R"({"model":"\ud800"})", ""},
      {"", ""},
  };
  for (const auto& [body, param] : cases) {
    const Outcome out = completion(body);
    EXPECT_FALSE(out.ok) << body;
    EXPECT_EQ(out.error.param, param) << body << out.error.message;
    EXPECT_FALSE(out.error.message.empty());
  }
}

TEST(Params, ChatBody_WhenInvalid_NamesTheParameter) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"model":"m"})", "messages"},
      {R"({"model":"m","messages":[]})", "messages"},
      {R"({"model":"m","messages":"hi"})", "messages"},
      {R"({"model":"m","messages":["hi"]})", "messages[0]"},
      {R"({"model":"m","messages":[{"content":"a"}]})", "messages[0].role"},
      {R"({"model":"m","messages":[{"role":"user","content":5}]})", "messages[0].content"},
      {R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
       "messages[0].content[0].type"},
      {R"({"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":0})", "max_tokens"},
      {R"({"model":"m","messages":[{"role":"user","content":"a"}],"top_logprobs":2})",
       "top_logprobs"},
      {R"({"model":"m","messages":[{"role":"user","content":"a"}],
           "response_format":{"type":"yaml"}})",
       "response_format"},
      {R"({"model":"m","messages":[{"role":"user","content":"a"}],
           "response_format":{"type":"json_schema","json_schema":{"name":"x"}}})",
       "response_format"},
      {R"({"model":"m","messages":[{"role":"user","content":"a"}],"guided_regex":"a",
           "response_format":{"type":"json_object"}})",
       "response_format"},
      {R"({"model":"m","messages":[{"role":"user","content":"a"}],"guided_regex":5})",
       "guided_regex"},
      {R"({"model":"m","messages":[{"role":"user","content":"a"}],"guided_finish":true})",
       "guided_finish"},
      {R"({"model":"m","messages":[{"role":"user","content":"a"}],"tools":{}})", "tools"},
  };
  for (const auto& [body, param] : cases) {
    const Outcome out = chat(body);
    EXPECT_FALSE(out.ok) << body;
    EXPECT_EQ(out.error.param, param) << body << out.error.message;
  }
}

TEST(Params, ChatMessages_WithTools_ReachTheTemplateInOrder) {
  const Outcome out = chat(
      R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},
          {"type":"text","text":"b"}]}],
          "tools":[{"function":{"zeta":1,"name":"f","alpha":2}}],"max_completion_tokens":9,
          "logprobs":true,"top_logprobs":3,"max_tokens":null})");
  ASSERT_TRUE(out.ok) << out.error.message;
  const wire::Submit& s = out.generation.submit;
  EXPECT_EQ(s.prompts.at(0).messages_json,
            R"({"messages":[{"role":"user","content":"a\nb"}],"tools":[{"type":"function",)"
            R"("function":{"zeta":1,"name":"f","alpha":2}}]})");
  EXPECT_EQ(s.max_tokens, 9);
  EXPECT_EQ(s.sampling.logprobs, 3);
  EXPECT_TRUE(out.generation.shape.tools);
  EXPECT_FALSE(chat(R"({"model":"m","messages":[{"role":"user","content":"a"}]})")
                   .generation.submit.max_tokens.has_value());
}

TEST(Params, EarlierToolCalls_WithJsonArguments_ReachTheTemplateAsObjects) {
  const Outcome out = chat(
      R"({"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,
          "tool_calls":[{"id":"abcdefghi","type":"function",
                         "function":{"name":"f","arguments":"{\"x\": 1}"}},
          {"id":"b","type":"function","function":{"name":"g","arguments":"no object"}}]},
          {"role":"tool","tool_call_id":"abcdefghi","content":"7"}],"parallel_tool_calls":false,
          "tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none"})");
  ASSERT_TRUE(out.ok) << out.error.message;
  EXPECT_TRUE(out.generation.ignored.empty());
  EXPECT_FALSE(out.generation.shape.tools) << "they were not to be used";
  const std::string& text = *out.generation.submit.prompts.at(0).messages_json;
  EXPECT_NE(text.find(R"("arguments":{"x":1})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("arguments":"no object")"), std::string::npos) << text;
  EXPECT_EQ(text.find("\"tools\""), std::string::npos) << text;
}

const std::string kTools =
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"b":1,"a":2}}},
                {"type":"function","function":{"name":"g"}}])";

std::string with_tools(const std::string& more) {
  return R"({"model":"m","messages":[{"role":"user","content":"a"}],)" + kTools + more + "}";
}

TEST(Params, ToolChoice_WhenACallIsRequired_ListsTheAllowedTools) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {R"(,"tool_choice":"auto")", ""},
      {R"(,"tool_choice":"required")", R"([{"name":"f","parameters":{"b":1,"a":2}},{"name":"g"}])"},
      {R"(,"tool_choice":{"type":"function","function":{"name":"g"}})", R"([{"name":"g"}])"},
      {R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[
          {"type":"function","function":{"name":"f"}}]}})",
       R"([{"name":"f","parameters":{"b":1,"a":2}}])"},
      {R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[
          {"type":"function","function":{"name":"f"}}]}})",
       ""}};
  for (const auto& [choice, must] : cases) {
    const Outcome out = chat(with_tools(choice));
    ASSERT_TRUE(out.ok) << choice << out.error.message;
    EXPECT_EQ(out.generation.must_call, must) << choice;
    EXPECT_TRUE(out.generation.shape.tools);
  }
  EXPECT_FALSE(chat(with_tools(R"(,"tool_choice":"required")")).generation.one_call);
  EXPECT_TRUE(chat(with_tools(R"(,"tool_choice":"required","parallel_tool_calls":false)"))
                  .generation.one_call);
  for (const char* bad :
       {R"(,"tool_choice":"always")", R"(,"tool_choice":{"type":"function"})",
        R"(,"tool_choice":{"type":"function","function":{"name":"h"}})",
        R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"x","tools":[]}})"}) {
    EXPECT_EQ(chat(with_tools(bad)).error.param, "tool_choice") << bad;
  }
  const Outcome none =
      chat(R"({"model":"m","messages":[{"role":"user","content":"a"}],"tool_choice":"required"})");
  EXPECT_EQ(none.error.param, "tool_choice");
  EXPECT_EQ(none.error.message.find("left out"), std::string::npos) << none.error.message;
  const Outcome left_out = chat(
      R"({"model":"m","messages":[{"role":"user","content":"a"}],"tool_choice":"required",
          "tools":[{"type":"web_search"},{"type":"custom","custom":{"name":"c"}}]})");
  EXPECT_EQ(left_out.error.param, "tool_choice");
  for (const char* name : {"tools[0]:web_search", "tools[1]:custom"}) {
    EXPECT_NE(left_out.error.message.find(name), std::string::npos) << left_out.error.message;
  }
}

TEST(Params, LegacyFunctions_WhenGiven_BecomeTools) {
  const auto old = [](const std::string& more) {
    return chat(R"({"model":"m","messages":[{"role":"user","content":"a"}],
                    "functions":[{"name":"f","parameters":{"b":1}},{"name":"g"}])" +
                more + "}");
  };
  const std::tuple<const char*, bool, const char*> cases[] = {
      {"", true, ""},
      {R"(,"function_call":"auto","tools":[])", true, ""},
      {R"(,"function_call":"none")", false, ""},
      {R"(,"function_call":{"name":"g"})", true, R"([{"name":"g"}])"},
      {R"(,"tool_choice":"required")", true,
       R"([{"name":"f","parameters":{"b":1}},{"name":"g"}])"}};
  for (const auto& [more, tools, must] : cases) {
    const Outcome out = old(more);
    ASSERT_TRUE(out.ok) << more << out.error.message;
    EXPECT_EQ(out.generation.shape.tools, tools) << more;
    EXPECT_EQ(decode_shape(encode_shape(out.generation.shape)).function_call, tools) << more;
    EXPECT_EQ(out.generation.must_call, must) << more;
    EXPECT_EQ(out.generation.one_call, std::string(must) != "") << more;
    EXPECT_TRUE(out.generation.ignored.empty()) << more;
  }
  EXPECT_NE(old("").generation.submit.prompts[0].messages_json->find(
                R"("tools":[{"type":"function","function":{"name":"f","parameters":{"b":1}}},)"),
            std::string::npos);
  const std::pair<const char*, const char*> wrong[] = {
      {R"(,"tools":[{"type":"function","function":{"name":"h"}}])", "functions"},
      {R"(,"function_call":"auto","tool_choice":"auto")", "function_call"},
      {R"(,"function_call":{"name":"h"})", "function_call"},
      {R"(,"function_call":{})", "function_call"},
      {R"(,"function_call":5)", "function_call"}};
  for (const auto& [more, param] : wrong) {
    EXPECT_EQ(old(more).error.param, param) << more << old(more).error.message;
  }
  const auto alone = [](const std::string& more) {
    return chat(R"({"model":"m","messages":[{"role":"user","content":"a"}],)" + more + "}");
  };
  EXPECT_EQ(alone(R"("functions":[{"description":"x"}])").error.param, "functions[0].name");
  EXPECT_EQ(alone(R"("function_call":{"name":"f"})").error.param, "function_call");
  EXPECT_TRUE(alone(R"("function_call":"none","functions":[])").ok);
}

// The output's description tells its parser where the answer begins.
TEST(Params, ContinueFinalMessage_WhenSet_MarksTheOutputAsBegun) {
  const auto begun = [](const std::string& last, const std::string& more) {
    return chat(R"({"model":"m","messages":[{"role":"user","content":"a"},)" + last + "]" + more +
                "}");
  };
  const char* text = R"({"role":"assistant","content":"b"})";
  const char* thought = R"({"role":"assistant","content":"<think>\nb"})";
  const char* empty = R"({"role":"assistant","content":""})";
  const std::string on = R"(,"continue_final_message":true)";
  const std::tuple<const char*, std::string, const char*, const char*> cases[] = {
      {text, "", "hermes+think+open", "llama3"},
      {text, R"(,"add_generation_prompt":false)", "hermes+think", "llama3"},
      {text, on, "hermes+begun", "llama3+begun"},
      {text, on + R"(,"add_generation_prompt":false)", "hermes+begun", "llama3+begun"},
      {thought, on, "hermes+think+open", "llama3+begun"},
      {empty, on, "hermes+think", "llama3"}};
  for (const auto& [last, more, thinks, plain] : cases) {
    for (const auto& [model, output] :
         {std::pair("hermes+think+open", thinks), {"llama3", plain}}) {
      Outcome out = begun(last, more);
      ASSERT_TRUE(out.ok) << out.error.message;
      EXPECT_TRUE(out.generation.ignored.empty());
      out.generation.shape.output = model;
      bind_to_model(&out.generation);
      EXPECT_EQ(out.generation.shape.output, output) << last << more;
    }
  }
  EXPECT_NE(begun(text, on).generation.submit.prompts[0].messages_json->find(
                R"("continue_final_message":true)"),
            std::string::npos);
  const std::tuple<std::string, std::string, const char*> wrong[] = {
      {text, on + R"(,"add_generation_prompt":true)", "continue_final_message"},
      {text, R"(,"continue_final_message":1)", "continue_final_message"},
      {text, R"(,"add_generation_prompt":"no")", "add_generation_prompt"},
      {R"({"role":"user","content":"b"})", on, "continue_final_message"},
      {R"({"role":"assistant","function_call":{"name":"f"}})", on, "continue_final_message"},
      {text, on + "," + kTools + R"(,"tool_choice":"required")", "tool_choice"}};
  for (const auto& [last, more, param] : wrong) {
    EXPECT_EQ(begun(last, more).error.param, param) << last << more;
  }
  EXPECT_TRUE(begun(thought, on + "," + kTools + R"(,"tool_choice":"required")").ok);
  EXPECT_TRUE(begun(text, on + "," + kTools).ok);
}

TEST(Params, ToolCallGrammar_WhenBoundToAModel_FollowsItsFamily) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"hermes+think", "hermes", "hermes+think"},
      {"mistral", "llama3", "llama3"},
      {"deepseek+think+open", "llama3", "llama3+think+open"},
      {"", "llama3", "llama3"}};
  for (const auto& [output, form, read_as] : cases) {
    Outcome out = chat(with_tools(R"(,"tool_choice":"required","mirostat":2,"guided_regex":"x")"));
    ASSERT_TRUE(out.ok);
    out.generation.shape.output = output;
    bind_to_model(&out.generation);
    EXPECT_EQ(out.generation.shape.output, read_as);
    const json extra = json::parse(out.generation.submit.sampling.extra);
    EXPECT_EQ(extra["mirostat"], 2);
    EXPECT_EQ(extra["grammar"]["kind"], "tool_call");
    const json source = json::parse(extra["grammar"]["source"].get<std::string>());
    EXPECT_EQ(source["form"], form);
    EXPECT_EQ(source["reasoning"], std::string(output).find("think") != std::string::npos);
    EXPECT_EQ(source["opened"], std::string(output).find("open") != std::string::npos);
    EXPECT_EQ(source["tools"].size(), 2u);
  }
}

// The schema preserves the order of its members: documents are written in it.
TEST(Params, ResponseFormat_WhenGiven_BecomesAGrammarInExtra) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("response_format":{"type":"text"})", ""},
      {R"("response_format":{"type":"json_object"})",
       R"({"grammar":{"finish":true,"kind":"json_object"}})"},
      {R"("response_format":{"type":"json_object"},"guided_finish":false)",
       R"({"grammar":{"kind":"json_object"}})"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{"b":1,"a":2}}})",
       R"({"grammar":{"finish":true,"kind":"json_schema","source":"{\"b\":1,\"a\":2}"}})"},
      {R"("guided_json":{"b":1,"a":2})",
       R"({"grammar":{"finish":true,"kind":"json_schema","source":"{\"b\":1,\"a\":2}"}})"},
      {R"("json_schema":"{ }")",
       R"({"grammar":{"finish":true,"kind":"json_schema","source":"{ }"}})"},
      {R"("guided_regex":"a+")", R"({"grammar":{"kind":"regex","source":"a+"}})"},
      {R"("guided_regex":"a+","guided_finish":true)",
       R"({"grammar":{"finish":true,"kind":"regex","source":"a+"}})"},
      {R"("guided_regex":"a+","guided_finish":false)",
       R"({"grammar":{"kind":"regex","source":"a+"}})"},
      {R"("guided_grammar":"root ::= x")", R"({"grammar":{"kind":"gbnf","source":"root ::= x"}})"},
      {R"("grammar":"root ::= x")", R"({"grammar":{"kind":"gbnf","source":"root ::= x"}})"}};
  for (const auto& [fields, extra] : cases) {
    const Outcome one = completion(R"({"model":"m","prompt":"a",)" + std::string(fields) + "}");
    ASSERT_TRUE(one.ok) << fields << one.error.message;
    EXPECT_EQ(one.generation.submit.sampling.extra, extra);
    EXPECT_TRUE(one.generation.ignored.empty());
    const Outcome two = chat(R"({"model":"m","messages":[{"role":"user","content":"a"}],)" +
                             std::string(fields) + "}");
    ASSERT_TRUE(two.ok) << fields << two.error.message;
    EXPECT_EQ(two.generation.submit.sampling.extra, extra);
  }
}

TEST(Params, UnsupportedFields_WhenGiven_AreReportedAsIgnored) {
  const Outcome out = completion(
      R"({"model":"m","prompt":"a","suffix":"b","logit_bias":{},"best_of":1,"stream":true,
          "stream_options":{"odd":1}})");
  ASSERT_TRUE(out.ok);
  EXPECT_EQ(out.generation.ignored, (std::vector<std::string>{"stream_options.odd", "suffix"}));
}

TEST(Params, ExtraSamplingParameters_WhenGiven_GoIntoExtra) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("logit_bias":{"5":-100,"7":2.5})", R"({"logit_bias":{"5":-100,"7":2.5}})"},
      {R"("logit_bias":[[5,1],[7,false]])", R"({"logit_bias":{"5":1,"7":-1000}})"},
      {R"("logit_bias":{})", ""},
      {R"("bad_words":["x"])", R"({"banned_strings":["x"]})"},
      {R"("typical_p":0.5,"mirostat":2,"samplers":["top_k","temperature"])",
       R"({"typical_p":0.5,"mirostat":2,"samplers":["top_k","temperature"]})"},
      {R"("response_format":{"type":"json_object"},"mirostat":2)",
       R"({"grammar":{"kind":"json_object"},"mirostat":2})"},
      {R"("dry_multiplier":1,"guided_regex":"a+")",
       R"({"grammar":{"kind":"regex","source":"a+"},"dry_multiplier":1})"}};
  for (const auto& [fields, extra] : cases) {
    const Outcome out = completion(R"({"model":"m","prompt":"a",)" + std::string(fields) + "}");
    ASSERT_TRUE(out.ok) << fields << out.error.message;
    EXPECT_EQ(out.generation.submit.sampling.extra, extra);
    EXPECT_TRUE(out.generation.ignored.empty());
  }
  const std::pair<const char*, const char*> wrong[] = {
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":[[1]])", "logit_bias"},
      {R"("logit_bias":"x")", "logit_bias"},
      {R"("typical_p":2)", "typical_p"},
      {R"("mirostat":1)", "mirostat"},
      {R"("samplers":["x"])", "samplers"},
      {R"("banned_strings":"x")", "banned_strings"},
      {R"("bad_words":[""])", "bad_words"},
      {R"("bad_words":["x"],"banned_strings":["y"])", "bad_words"}};
  for (const auto& [fields, name] : wrong) {
    const Outcome out = completion(R"({"model":"m","prompt":"a",)" + std::string(fields) + "}");
    EXPECT_FALSE(out.ok) << fields;
    EXPECT_EQ(out.error.param, name) << fields;
  }
}

TEST(Params, Body_WhenTooDeepOrWide_IsRefused) {
  const auto nested = [](int depth) {
    return R"({"model":"m","prompt":"a","x":)" + std::string(depth, '[') + std::string(depth, ']') +
           "}";
  };
  EXPECT_TRUE(completion(nested(31)).ok);
  EXPECT_FALSE(completion(nested(32)).ok);
  EXPECT_FALSE(completion(nested(100'000)).ok);
  std::string wide = R"({"model":"m","prompt":"a")";
  for (int i = 0; i < 2000; ++i) wide += ",\"k" + std::to_string(i) + "\":0";
  EXPECT_FALSE(completion(wide + "}").ok);
  // Brackets and commas within strings do not count.
  EXPECT_TRUE(completion(R"({"model":"m","prompt":")" + std::string(5000, '[') +
                         std::string(5000, ',') + R"(\"["})")
                  .ok);
}

TEST(Params, BodyHash_WhenOnlyOrderOrSpaceDiffers_IsEqual) {
  const auto hash = [](const char* path, const char* body) {
    return hash_body(path, json::parse(body));
  };
  EXPECT_EQ(hash("/a", R"({"x":1,"y":{"a":1,"b":2}})"),
            hash("/a", R"({ "y":{"b":2,"a":1}, "x":1})"));
  EXPECT_NE(hash("/a", R"({"x":1})"), hash("/a", R"({"x":2})"));
  EXPECT_NE(hash("/a", R"({"x":[1,2]})"), hash("/a", R"({"x":[2,1]})"));
  EXPECT_NE(hash("/a", R"({"x":1})"), hash("/b", R"({"x":1})"));
  EXPECT_EQ(hash("/a", "{}").size(), 64u);
}

// ---- how long a model may reason

/// Returns the outcome of a chat with these fields, bound to a model that writes as `output` says.
Outcome bound(const std::string& fields, const std::string& output = "hermes+think") {
  Outcome out = chat(R"({"model":"m","messages":[{"role":"user","content":"a"}])" + fields + "}");
  out.generation.shape.output = output;
  if (out.ok) bind_to_model(&out.generation);
  return out;
}
json thinking_of(const Outcome& out) {
  const std::string& extra = out.generation.submit.sampling.extra;
  return extra.empty() ? json() : json::parse(extra).value("thinking", json());
}
json kwargs_of(const Outcome& out) {
  const auto root = json::parse(*out.generation.submit.prompts.at(0).messages_json);
  return root.value("chat_template_kwargs", json::object());
}

TEST(Params, ThinkingBudget_WithEachApisField_SetsTheTokenLimit) {
  const std::pair<const char*, int> kCases[] = {
      {R"(,"thinking":{"type":"enabled","budget_tokens":100})", 100},
      {R"(,"thinking":{"type":"disabled"})", 0},
      {R"(,"thinking_token_budget":7)", 7},
      {R"(,"thinking_budget":8)", 8},
      {R"(,"reasoning_budget":9)", 9},
      {R"(,"reasoning":{"max_tokens":10})", 10},
      {R"(,"reasoning_effort":"none")", 0},
      {R"(,"reasoning_effort":"low")", 1024},
      {R"(,"output_config":{"effort":"low"})", 1024},
      {R"(,"reasoning":{"effort":"medium","summary":"auto"})", 8192},
      {R"(,"reasoning_effort":"high","max_tokens":100)", 80},
      {R"(,"reasoning_effort":"low","thinking_token_budget":2000)", 2000},
      {R"(,"thinking_token_budget":20,"thinking":{"type":"enabled","budget_tokens":10})", 10},
  };
  for (const auto& [fields, tokens] : kCases) {
    const Outcome out = bound(fields);
    ASSERT_TRUE(out.ok) << fields << out.error.message;
    const json thinking = thinking_of(out);
    ASSERT_TRUE(thinking.is_object()) << fields;
    EXPECT_EQ(thinking["tokens"], tokens) << fields;
    EXPECT_TRUE(out.generation.ignored.empty()) << fields;
    EXPECT_TRUE(sampling::parse_extra(out.generation.submit.sampling.extra, 10)) << fields;
  }
  for (const char* free : {"", R"(,"thinking_token_budget":-1)", R"(,"reasoning_effort":"xhigh")",
                           R"(,"thinking":{"type":"adaptive"})", R"(,"enable_thinking":true)"}) {
    EXPECT_TRUE(thinking_of(bound(free)).is_null()) << free;
  }
}

TEST(Params, ThinkingSwitch_WhenGiven_ReachesTheTemplateKwargs) {
  EXPECT_EQ(kwargs_of(bound("")), json::object());
  EXPECT_EQ(kwargs_of(bound(R"(,"reasoning_effort":"minimal")")),
            json::parse(R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"low"})"));
  EXPECT_EQ(kwargs_of(bound(R"(,"thinking":{"type":"disabled"})")),
            json::parse(R"({"enable_thinking":false,"thinking":false})"));
  // Kwargs that the client set itself stay.
  const json kwargs = kwargs_of(
      bound(R"(,"reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false})"));
  EXPECT_EQ(kwargs["enable_thinking"], false);
}

TEST(Params, OpenedReasoning_WhenTemplateHasASwitch_FollowsIt) {
  const auto opens = [](const char* fields, const char* output) {
    return chat::read_output(bound(fields, output).generation.shape.output).opens_reasoning;
  };
  EXPECT_FALSE(opens("", "deepseek+think+on"));
  EXPECT_TRUE(opens(R"(,"reasoning_effort":"low")", "deepseek+think+on"));
  EXPECT_TRUE(opens(R"(,"chat_template_kwargs":{"thinking":true})", "deepseek+think+on"));
  EXPECT_TRUE(opens("", "hermes+think+open"));
  EXPECT_TRUE(opens(R"(,"enable_thinking":false)", "hermes+think+open")) << "it has no switch";
  EXPECT_FALSE(opens(R"(,"enable_thinking":false)", "hermes+think+open+on"));
  EXPECT_EQ(thinking_of(bound(R"(,"thinking_budget":5)", "none+think+open"))["open"], true);
}

TEST(Params, ThinkingFields_WhenInvalidOrWithoutEffect_AreNamed) {
  const std::pair<const char*, const char*> kWrong[] = {
      {R"(,"thinking":{"type":"maybe"})", "thinking.type"},
      {R"(,"thinking":{"type":"enabled","budget_tokens":"x"})", "thinking.budget_tokens"},
      {R"(,"max_tokens":50,"thinking":{"type":"enabled","budget_tokens":50})",
       "thinking.budget_tokens"},
      {R"(,"thinking_token_budget":-2)", "thinking_token_budget"},
      {R"(,"reasoning":"low")", "reasoning"},
  };
  for (const auto& [fields, param] : kWrong) {
    const Outcome out = bound(fields);
    EXPECT_FALSE(out.ok) << fields;
    EXPECT_EQ(out.error.param, param) << fields;
  }
  EXPECT_EQ(bound(R"(,"thinking_budget":5)", "hermes").generation.ignored,
            std::vector<std::string>{"thinking_budget"});
  EXPECT_EQ(
      bound(R"(,"thinking":{"type":"enabled","budget_tokens":5})", "hermes").generation.ignored,
      std::vector<std::string>{"thinking"});
  EXPECT_EQ(bound(R"(,"reasoning_effort":"ultra")").generation.ignored,
            std::vector<std::string>{"reasoning_effort"});
}

TEST(Params, ToolParameters_WhenNotStrings_AreRecordedAsJson) {
  const auto tools_of = [](const char* parameters) {
    const std::string body =
        R"({"model":"m","messages":[{"role":"user","content":"a"}],"tools":[{"type":"function",
            "function":{"name":"f","parameters":)" +
        std::string(parameters) + "}}]}";
    return chat(body.c_str()).generation.shape.json_arguments;
  };
  EXPECT_EQ(tools_of(R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},
                        "c":{"anyOf":[{"type":"string"},{"type":"null"}]},
                        "d":{"type":["string","null"]},"e":true}})"),
            (chat::JsonArguments{{"f", {"b", "c", "d", "e"}}}));
  EXPECT_TRUE(tools_of(R"({"type":"object","properties":{"a":{"type":"string"}}})").empty());
  for (const char* none : {"{}", "null", "5", R"({"properties":[1]})"}) {
    EXPECT_TRUE(tools_of(none).empty()) << none;
  }
}

TEST(Params, ResponseShape_AfterEncodeAndDecode_IsEqual) {
  const Shape shape{Api::kChat, true, true, 6, "abc", "user \"x\"", "mine 7", "hermes+think", true};
  const Shape back = decode_shape(encode_shape(shape));
  EXPECT_EQ(back.api, Api::kChat);
  EXPECT_TRUE(back.stream && back.include_usage);
  EXPECT_EQ(back.choices, 6);
  EXPECT_EQ(back.body_hash, "abc");
  EXPECT_EQ(back.user, "user \"x\"");
  EXPECT_EQ(back.client_id, "mine 7");
  EXPECT_EQ(back.output, "hermes+think");
  EXPECT_TRUE(back.tools);
  Shape typed = shape;  // types of arguments: only for formats that leave them to the tool
  typed.json_arguments = {{"find", {"n", "deep"}}};
  EXPECT_TRUE(decode_shape(encode_shape(typed)).json_arguments.empty());
  typed.output = "glm+think";
  EXPECT_EQ(decode_shape(encode_shape(typed)).json_arguments, typed.json_arguments);
  EXPECT_EQ(parse_options(typed)->json_arguments, typed.json_arguments);
  for (const char* odd : {"[]", "5", "\"x\"", "{\"f\":5}", "{\"f\":[5,{}]}", "null"}) {
    EXPECT_LE(decode_shape("{\"gateway\":{\"json_arguments\":" + std::string(odd) + "}}")
                  .json_arguments.size(),
              1u);
  }
  for (const char* other : {"", "x", "[]", "{\"gateway\":5}", "{\"gateway\":{\"api\":5}}"}) {
    EXPECT_EQ(decode_shape(other).choices, 1);
  }
}

}  // namespace
}  // namespace holdfast::gateway::params_test
