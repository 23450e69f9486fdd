// Goal: a profile is read strictly and within its bounds, gives a request what the request leaves
// open and nothing else, and is made of what another program's model has.
// Method: profiles and layers as texts; options and messages before and after.
#include "shared/profile/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "shared/base/json_text.h"
#include "shared/profile/layers.h"
#include "shared/profile/ollama.h"

namespace holdfast::profile::profile_test {
namespace {

using json = nlohmann::ordered_json;

Profile made(const std::string& text) {
  auto profile = read_profile(text);
  EXPECT_TRUE(profile.has_value()) << profile.error().what;
  return profile ? *profile : Profile{};
}
std::string error_of(const std::string& text) {
  const auto profile = read_profile(text);
  return profile ? "" : profile.error().what;
}
wire::GenerationOptions given(const Profile& profile, wire::GenerationOptions options) {
  give_options(profile, options);
  return options;
}

TEST(Profile, Text_WhenWrong_NamesTheMember) {
  const auto says = [](const std::string& text, const std::string& word) {
    EXPECT_NE(error_of(text).find(word), std::string::npos) << text << ": " << error_of(text);
  };
  says("[]", "expected a JSON object");
  says(R"({"templates":"a"})", "templates: is not known");
  says(R"({"system":1})", "system: expected a text");
  says(R"({"parameters":[]})", "parameters: expected an object");
  says(R"({"parameters":{"top_k":1.5}})", "parameters.top_k: expected a whole number");
  says(R"({"parameters":{"temperature":"x"}})", "parameters.temperature: expected a number");
  says(R"({"parameters":{"top_p":1.1}})", "0 to 1");
  says(R"({"parameters":{"typical_p":2}})", "0 to 1");
  says(R"({"parameters":{"mirostat":1}})", "0 or 2");
  says(R"({"parameters":{"ignore_eos":1}})", "true or false");
  says(R"({"parameters":{"logprobs":1}})", "is none of a profile");
  says(R"({"parameters":{"warmth":1}})", "is none of a profile");
  says(R"({"parameters":{"max_tokens":0}})", "parameters.max_tokens: expected 1 to");
  says(R"({"parameters":{"stop":[""]}})", "parameters.stop");
  says(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "messages[0]");
  says(json{{"messages", std::vector<json>(65, {{"role", "user"}})}}.dump(), "at most 64");
  says(json{{"system", std::string(kBytesMax, 'x')}}.dump(), "at most 262144");
}

TEST(Profile, Checked_WithEmptyMembers_LeavesThemOut) {
  EXPECT_EQ(*checked_profile(json()), "");
  EXPECT_EQ(*checked_profile({{"template", ""}, {"parameters", json::object()}}), "");
  EXPECT_EQ(*checked_profile({{"template", nullptr}, {"system", "s"}}), R"({"system":"s"})");
  EXPECT_FALSE(checked_profile(json(7)).has_value());
}

TEST(Profile, Options_ThatTheRequestHas_StayAsTheyAre) {
  const Profile profile = made(
      R"({"parameters":{"temperature":0.25,"top_k":5,"typical_p":0.5,"stop":"Z","max_tokens":7,)"
      R"("seed":3}})");
  const auto none = given(profile, {});
  EXPECT_FLOAT_EQ(none.sampling.temperature, 0.25F);
  EXPECT_EQ(none.sampling.top_k, 5);
  EXPECT_EQ(none.sampling.extra, R"({"typical_p":0.5})");
  EXPECT_EQ(none.stops, std::vector<std::string>{"Z"});
  EXPECT_FALSE(none.max_tokens.has_value());
  EXPECT_EQ(none.most_tokens, 7);
  EXPECT_EQ(none.sampling.seed, 3u);
  EXPECT_TRUE(none.seed_given);

  wire::GenerationOptions own;
  own.sampling.temperature = 0.5F;
  own.sampling.extra = R"({"typical_p":0.9,"top_a":0.1})";
  own.stops = {"A"};
  own.max_tokens = 2;
  own.seed_given = true;
  const auto members = given(profile, own);
  EXPECT_FLOAT_EQ(members.sampling.temperature, 0.5F);
  EXPECT_EQ(members.sampling.extra, own.sampling.extra);
  EXPECT_EQ(members.stops, own.stops);
  EXPECT_EQ(members.max_tokens, 2);
  EXPECT_FALSE(members.most_tokens.has_value());
  EXPECT_EQ(members.sampling.seed, 0u);

  own.given.emplace();  // all of them are its server's defaults
  const auto given_none = given(profile, own);
  EXPECT_FLOAT_EQ(given_none.sampling.temperature, 0.25F);
  EXPECT_EQ(given_none.stops, std::vector<std::string>{"Z"});
  own.given = {"temperature", "stop"};
  own.stops.clear();
  EXPECT_TRUE(given(profile, own).stops.empty()) << "none, by its own words";
}

TEST(Profile, Options_OfVectorsAndWholeDocuments_AreLeftAlone) {
  const Profile profile = made(R"({"parameters":{"temperature":0.25,"mirostat":2,"top_k":5}})");
  wire::GenerationOptions vector;
  vector.sampling.extra = R"({"embedding":{"normalize":true}})";
  EXPECT_FLOAT_EQ(given(profile, vector).sampling.temperature, 1.0F);
  wire::GenerationOptions document;
  document.sampling.extra = R"({"grammar":{"kind":"json_object","finish":true}})";
  const auto out = given(profile, document);
  EXPECT_EQ(out.sampling.extra, document.sampling.extra) << "mirostat cannot be led to an end";
  EXPECT_EQ(out.sampling.top_k, 5);
}

TEST(Profile, Messages_WhenAdded_LeaveTheSystemsFirst) {
  const Profile profile = made(R"({"system":"S","messages":[{"role":"user","content":"a"},)"
                               R"({"role":"assistant","content":"b"}]})");
  const auto texts = [&](json messages, AddedMessages* added) {
    *added = add_messages(profile, messages);
    std::string out;
    for (const json& m : messages) out += m["content"].get<std::string>();
    return out;
  };
  AddedMessages added;
  const json user = {{"role", "user"}, {"content", "Q"}};
  EXPECT_EQ(texts(json::array({user}), &added), "SabQ");
  EXPECT_EQ(added.index_in_request(3), 0);
  EXPECT_EQ(added.index_in_request(1), -1);
  const json own = {{"role", "system"}, {"content", "O"}};
  EXPECT_EQ(texts(json::array({own, user}), &added), "OabQ");
  EXPECT_EQ(added.index_in_request(0), 0);
  EXPECT_EQ(added.index_in_request(3), 1);
}

TEST(OllamaParameters, Object_WhenRead_IsSorted) {
  const auto read = read_ollama_parameters(json::parse(
      R"({"temperature":0.5,"repeat_penalty":1.1,"num_predict":-1,"num_ctx":4096,"num_gpu":1,)"
      R"("mirostat":1,"stop":["a","b"]})"));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->json, R"({"temperature":0.5,"repetition_penalty":1.1,"stop":["a","b"]})");
  EXPECT_EQ(read->context, 4096);
  EXPECT_EQ(read->left_out, std::vector<std::string>{"num_gpu"});
  ASSERT_EQ(read->wrong.size(), 1u);
  EXPECT_TRUE(read->wrong[0].starts_with("mirostat: ")) << read->wrong[0];
  EXPECT_FALSE(read_ollama_parameters(json(7)).has_value());
}

TEST(Layers, OfAModel_BecomeAProfileOfWhatIsRight) {
  const TakenOver taken = take_over({{"params", R"({"temperature":0.5,"num_keep":24})"},
                                     {"license", "L1"},
                                     {"license", "L2"},
                                     {"template", "{{ .Prompt }}"},
                                     {"system", "S"},
                                     {"messages", R"([{"role":"user","content":"a"}])"}});
  const json profile = json::parse(taken.profile);
  EXPECT_EQ(profile["system"], "S");
  EXPECT_EQ(profile["license"], "L1\n\nL2");
  EXPECT_EQ(profile["parameters"]["temperature"], 0.5);
  EXPECT_EQ(profile["messages"][0]["content"], "a");
  EXPECT_EQ(summary(taken),
            "taken over: template, system, parameters, messages, license, license; left out: "
            "parameter num_keep: has no effect here");
}

TEST(Layers, ThatCannotBeHere_AreLeftOutAndSaid) {
  const TakenOver taken = take_over({{"template", "{{ html .Prompt }}"},
                                     {"params", "no json"},
                                     {"system", "\xFF"},
                                     {"messages", R"([{"content":"a"}])"},
                                     {"license", std::string(kBytesMax, 'x')}});
  EXPECT_EQ(taken.profile, "");
  EXPECT_EQ(taken.left_out.size(), 5u);
  EXPECT_NE(taken.left_out[0].find("the function html; the file's own is used"), std::string::npos)
      << taken.left_out[0];
  EXPECT_EQ(layer_part("application/vnd.ollama.image.template"), "template");
  EXPECT_EQ(layer_part("application/vnd.ollama.image.model"), std::nullopt);
  EXPECT_EQ(layer_part("text/plain"), std::nullopt);
}

}  // namespace
}  // namespace holdfast::profile::profile_test
