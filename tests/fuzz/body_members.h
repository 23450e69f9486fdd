#pragma once
// The members of the endpoints' bodies, for JsonMaker: the required ones first.

#include "tests/fuzz/json_maker.h"

namespace holdfast::fuzz {

struct BodyForm {
  std::span<const Member> members;
  std::size_t required;
};

#define HOLDFAST_COMMON_MEMBERS                                                           \
  {"priority", "\"interactive\""}, {"priority", "@"}, {"user", "~"}, {"session_id", "~"}, \
      {"queue_timeout_ms", "100"}, {                                                      \
    "total_timeout_ms", "@"                                                               \
  }

#define HOLDFAST_TEXT_MEMBERS                                                                      \
  HOLDFAST_COMMON_MEMBERS, {"temperature", "1.5"}, {"top_p", "0.5"}, {"min_p", "@"},               \
      {"top_k", "-1"}, {"presence_penalty", "-2"}, {"frequency_penalty", "@"},                     \
      {"repetition_penalty", "1.1"}, {"ignore_eos", "true"}, {"min_tokens", "3"},                  \
      {"seed", "-9223372036854775808"}, {"stop", "~"}, {"stop", "[%~%]"}, {"stream", "true"},      \
      {"stream_options", "{\"include_usage\":true}"}, {"stream_options", "{\"x\":@}"}, {"n", "2"}, \
      {"n", "@"}, {"prompt_logprobs", "2"}, {"max_tokens", "5"},                                   \
      {"response_format", "{\"type\":\"json_object\"}"},                                           \
      {"response_format", "{\"type\":\"json_schema\",\"json_schema\":{\"name\":~,\"schema\":@}}"}, \
      {"guided_json", "^"}, {"guided_json", "@"}, {"json_schema", "{\"type\":~}"},                 \
      {"guided_regex", "~"}, {"guided_grammar", "~"}, {"grammar", "~"}, {"guided_finish", "true"}, \
      {"guided_choice", "[%~%]"}, {"structured_outputs", "{\"choice\":[%~%],~:@}"},                \
      {"structured_outputs", "{\"json\":^}"}, {"format", "{\"type\":~,@:@}"}, {"format", "~"},     \
      {"response_format", "{\"type\":\"regex\",\"pattern\":~}"},                                   \
      {"output_config", "{\"format\":{\"type\":\"json_schema\",\"schema\":@}}"},                   \
      {"text", "{\"format\":{\"type\":\"json_object\",\"schema\":^}}"},                            \
      {"extra_body", "{\"top_k\":5,\"guided_regex\":~,~:@}"}, {"mirostat", "2"},                   \
      {"mirostat", "0"}, {"mirostat_tau", "@"}, {"typical_p", "0.9"}, {"top_n_sigma", "@"},        \
      {"xtc_probability", "0.1"}, {"dry_multiplier", "0.8"}, {"dry_allowed_length", "@"},          \
      {"repeat_last_n", "-1"}, {"banned_strings", "[%~%]"}, {"bad_words", "[%~%]"},                \
      {"samplers", "[\"top_k\",~]"}, {"dry_sequence_breakers", "[%~%]"},                           \
      {"logit_bias", "{\"5\":-1,~:@}"}, {                                                          \
    "logit_bias", "[%[@,@]%]"                                                                      \
  }

inline constexpr Member kCompletionMembers[] = {{"model", "\"m\""},
                                                {"prompt", "\"a\""},
                                                {"prompt", "[%~%]"},
                                                {"prompt", "[%@%]"},
                                                {"prompt", "[[1,2],[%@%]]"},
                                                HOLDFAST_TEXT_MEMBERS,
                                                {"echo", "true"},
                                                {"add_special_tokens", "false"},
                                                {"logprobs", "2"},
                                                {"best_of", "3"},
                                                {"suffix", "~"}};

#define HOLDFAST_TOOL_CALL \
  "{\"id\":~,\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":^}}"
#define HOLDFAST_TOOL "{\"type\":\"function\",\"function\":{\"name\":~,\"parameters\":@}}"

inline constexpr Member kChatMembers[] = {
    {"model", "\"m\""},
    {"messages", "[{\"role\":\"user\",\"content\":\"a\"}]"},
    {"messages", "[%{\"role\":\"user\",\"content\":[%{\"type\":\"text\",\"text\":~}%]}%]"},
    {"messages",
     "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":~},{\"type\":~,@:@}]}]"},
    {"messages",
     "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":~}}]}]"},
    {"messages",
     "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[%" HOLDFAST_TOOL_CALL "%]}]"},
    {"messages",
     "[{\"role\":\"assistant\",\"tool_calls\":@},{\"role\":\"tool\",\"tool_call_id\":~,\"content\":"
     "~}]"},
    {"messages", "[{\"role\":~,\"content\":@,\"name\":@},@]"},
    HOLDFAST_TEXT_MEMBERS,
    {"tools",
     "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
     "\"properties\":{\"a\":{\"type\":~},\"b\":@}}}}]"},
    {"tools", "[%" HOLDFAST_TOOL "%]"},
    {"tool_choice", "\"required\""},
    {"tool_choice", "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"},
    {"tool_choice",
     "{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"required\",\"tools\":[%{"
     "\"function\":{\"name\":~}}%]}}"},
    {"parallel_tool_calls", "false"},
    {"functions", "[%{\"name\":~,\"parameters\":@}%]"},
    {"function_call", "{\"name\":~}"},
    {"function_call", "\"auto\""},
    {"max_completion_tokens", "@"},
    {"logprobs", "true"},
    {"top_logprobs", "3"},
    {"add_generation_prompt", "@"},
    {"continue_final_message", "true"},
    {"messages", "[@,{\"role\":\"assistant\",\"content\":~,\"reasoning_content\":~}]"},
    {"chat_template_kwargs", "{\"enable_thinking\":@,~:@}"}};

inline constexpr Member kEmbeddingMembers[] = {{"model", "\"m\""},
                                               {"input", "\"a\""},
                                               {"input", "[%~%]"},
                                               {"input", "[%[%@%]"},
                                               {"input", "[[1],[2,@]]"},
                                               HOLDFAST_COMMON_MEMBERS,
                                               {"encoding_format", "\"base64\""},
                                               {"encoding_format", "~"},
                                               {"dimensions", "3"},
                                               {"dimensions", "@"},
                                               {"normalize", "false"},
                                               {"pooling", "\"cls\""},
                                               {"pooling", "~"},
                                               {"add_special_tokens", "@"}};

#define HOLDFAST_BLOCKS \
  "%{\"type\":\"text\",\"text\":~}%,{\"type\":\"tool_use\",\"id\":~,\"name\":\"f\",\"input\":@}"

inline constexpr Member kMessageMembers[] = {
    {"model", "\"m\""},
    {"max_tokens", "5"},
    {"messages", "[{\"role\":\"user\",\"content\":\"a\"}]"},
    {"messages", "[{\"role\":\"assistant\",\"content\":[" HOLDFAST_BLOCKS
                 "]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":~,"
                 "\"content\":[%{\"type\":\"text\",\"text\":~}%]}]}]"},
    {"messages",
     "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":\"base64\","
     "\"data\":~}}]}]"},
    {"messages",
     "[{\"role\":\"assistant\",\"content\":[%{\"type\":\"thinking\",\"thinking\":~,\"signature\":@}"
     "%]},@]"},
    {"messages", "[%{\"role\":\"user\",\"content\":@}%]"},
    {"system", "~"},
    {"system", "[%{\"type\":\"text\",\"text\":~,\"cache_control\":@}%]"},
    HOLDFAST_TEXT_MEMBERS,
    {"tools", "[%{\"name\":~,\"description\":@,\"input_schema\":@}%]"},
    {"tools", "[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\",\"properties\":@}}]"},
    {"tool_choice", "{\"type\":\"tool\",\"name\":\"f\"}"},
    {"tool_choice", "{\"type\":\"any\",\"disable_parallel_tool_use\":true}"},
    {"tool_choice", "{\"type\":~,\"name\":@}"},
    {"stop_sequences", "[%~%]"},
    {"metadata", "{\"user_id\":@}"},
    {"thinking", "{\"type\":\"enabled\",\"budget_tokens\":@}"}};

#define HOLDFAST_ITEMS                                                         \
  "%{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":~}]}%,"  \
  "{\"type\":\"function_call\",\"call_id\":~,\"name\":\"f\",\"arguments\":^}," \
  "{\"type\":\"function_call_output\",\"call_id\":~,\"output\":~}"

inline constexpr Member kResponseMembers[] = {
    {"model", "\"m\""},
    {"input", "\"a\""},
    {"input", "[" HOLDFAST_ITEMS "]"},
    {"input",
     "[{\"type\":\"message\",\"role\":\"developer\",\"content\":[%{\"type\":\"output_text\","
     "\"text\":~}%]},{\"type\":\"reasoning\",\"summary\":@}]"},
    {"input", "[%{\"type\":~,\"role\":~,\"content\":@}%]"},
    {"input", "[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\",\"image_url\":~}]}]"},
    {"input",
     "[{\"type\":\"compaction\",\"encrypted_content\":~},{\"type\":\"compaction\","
     "\"encrypted_content\":\"eyJ2IjoxLCJzdW1tYXJ5IjoiYSJ9\"}]"},
    {"input", "[{\"type\":\"item_reference\",\"id\":\"msg_resp_a\"},{\"id\":~}]"},
    HOLDFAST_TEXT_MEMBERS,
    {"instructions", "~"},
    {"previous_response_id", "\"resp_a\""},
    {"background", "true"},
    {"store", "false"},
    {"max_output_tokens", "5"},
    {"metadata", "{~:~}"},
    {"metadata", "@"},
    {"truncation", "\"disabled\""},
    {"reasoning", "{\"effort\":@}"},
    {"text", "{\"format\":{\"type\":\"json_schema\",\"name\":~,\"schema\":@}}"},
    {"text", "{\"format\":@}"},
    {"tools", "[%{\"type\":\"function\",\"name\":~,\"parameters\":@}%]"},
    {"tools", "[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"properties\":@}}]"},
    {"tool_choice", "{\"type\":\"function\",\"name\":\"f\"}"},
    {"tool_choice", "@"}};

inline constexpr Member kTokenizeMembers[] = {{"model", "\"m\""},
                                              {"prompt", "~"},
                                              {"content", "~"},
                                              {"messages", "[{\"role\":\"user\",\"content\":~}]"},
                                              {"messages", "@"},
                                              {"add_special_tokens", "@"},
                                              {"add_special", "true"},
                                              {"return_token_strs", "true"},
                                              {"with_pieces", "true"},
                                              {"tools", "[%" HOLDFAST_TOOL "%]"},
                                              {"chat_template_kwargs", "@"}};
inline constexpr Member kDetokenizeMembers[] = {
    {"model", "\"m\""}, {"tokens", "[1,2]"}, {"tokens", "[%@%]"}, {"x", "@"}};
inline constexpr Member kBatchMembers[] = {{"endpoint", "\"/v1/chat/completions\""},
                                           {"input_file_id", "\"file-a\""},
                                           {"completion_window", "\"24h\""},
                                           {"completion_window", "~"},
                                           {"endpoint", "~"},
                                           {"metadata", "{~:~,~:~}"},
                                           {"metadata", "{~:@}"},
                                           {"output_expires_after", "@"}};
inline constexpr Member kVerbMembers[] = {{"name", "\"m\""},
                                          {"to", "\"m=70,n=30\""},
                                          {"to", "~"},
                                          {"model", "~"},
                                          {"percent", "@"},
                                          {"path", "~"},
                                          {"context", "@"},
                                          {"slots", "@"},
                                          {"kv_type", "~"},
                                          {"options", "@"},
                                          {"load", "true"},
                                          {"who", "~"},
                                          {"id", "~"},
                                          {"priority", "~"},
                                          {"state", "~"},
                                          {"limit", "@"},
                                          {"after", "@"},
                                          {"version", "@"},
                                          {"from", "@"},
                                          {"settings", "{~:@,~:@}"},
                                          {"settings", "{\"queue.max\":@}"},
                                          {"names", "[%~%]"},
                                          {"when_ready", "@"},
                                          {"worker", "~"},
                                          {"all", "@"},
                                          {"force", "@"},
                                          {"ids", "[%@%]"},
                                          {"class", "~"},
                                          {"text", "~"},
                                          {"tenant", "~"},
                                          {"kind", "~"},
                                          {"key", "~"},
                                          {"weight", "@"}};

inline constexpr BodyForm kForms[] = {
    {kCompletionMembers, 2}, {kChatMembers, 2},     {kMessageMembers, 3},
    {kEmbeddingMembers, 2},  {kResponseMembers, 2}, {kTokenizeMembers, 2},
    {kDetokenizeMembers, 2}, {kBatchMembers, 3},    {kVerbMembers, 0}};

}  // namespace holdfast::fuzz
