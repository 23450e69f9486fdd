#pragma once
// The bodies of /v1/responses: their items as messages of a chat, and the answer as items.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "control/gateway/params.h"
#include "control/gateway/render.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

inline constexpr const char* kResponseKind = "response";

/// What a POST asks for, before the conversation before it is known.
struct ResponseWish {
  std::string items;     // JSON list: the input, a text as one message of the user
  std::string chat;      // JSON object: the rest as a chat completion's body, without messages
  std::string echo;      // JSON object: members that the response object says again
  std::string previous;  // id of the response that it goes on from
  bool stream = false;
  bool background = false;
  bool store = true;
};

/// False: `error` names the parameter.
bool parse_response(const nlohmann::ordered_json& body, ResponseWish* out, FieldError* error);

/// Items of earlier turns and of this one (JSON lists, in order) and the instructions as the body
/// of a chat completion: parse_chat does the rest.
bool chat_body(const ResponseWish& wish, const std::vector<std::string>& turns,
               nlohmann::ordered_json* out, FieldError* error);

/// One turn's answer, gathered.
struct TurnParts {
  std::string reasoning;
  std::string content;
  struct Call {
    std::string name;
    std::string arguments;
  };
  std::vector<Call> calls;
  UsageDetails usage;  // at the end
  bool ended = false;  // items are "completed", else "in_progress"
};

/// The answer as items. Their ids are made of the response's.
nlohmann::ordered_json output_items(const std::string& id, const TurnParts& parts);
nlohmann::ordered_json reasoning_item(const std::string& id, const std::string& text,
                                      const char* status);
nlohmann::ordered_json message_item(const std::string& id, const std::string& text,
                                    const char* status);
nlohmann::ordered_json call_item(const std::string& id, int call, const TurnParts::Call& what,
                                 const char* status);

/// OpenAI's response object. `output`: a JSON list.
nlohmann::ordered_json response_json(const wire::RequestInfo& info, const std::string& echo,
                                     nlohmann::ordered_json output,
                                     const UsageDetails& details = {});
/// "queued", "in_progress", "completed", "incomplete", "failed", "cancelled".
std::string response_status(const wire::RequestInfo& info);

}  // namespace holdfast::gateway
