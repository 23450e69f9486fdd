#pragma once
// The bodies of /v1/responses: items as messages of a chat, and the answer as items.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "control/gateway/common/params.h"
#include "control/gateway/common/render.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

inline constexpr const char* kResponseKind = "response";

/// A parsed POST, before its conversation is gathered.
struct ResponsesRequest {
  std::string items;     // JSON list: the input; a text is one message of the user
  std::string chat;      // JSON object: body of a chat completion, without messages
  std::string echo;      // JSON object: members that the response object repeats
  std::string previous;  // id of the response that it continues
  bool stream = false;
  bool background = false;
  bool store = true;
};

/// Returns false if the body is refused; `error` names the parameter.
bool parse_response(const nlohmann::ordered_json& body, ResponsesRequest* out, FieldError* error);

/// Builds the body of a chat completion, for parse_chat, of the items of earlier turns and of this
/// one (JSON lists, in order) and the instructions. Returns false if an item is refused.
bool chat_body(const ResponsesRequest& request, const std::vector<std::string>& turns,
               nlohmann::ordered_json* out, FieldError* error);

/// The gathered answer of one turn.
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

/// Returns the answer as items. Their ids are made of the response's.
nlohmann::ordered_json output_items(const std::string& id, const TurnParts& parts);
nlohmann::ordered_json reasoning_item(const std::string& id, const std::string& text,
                                      const char* status);
nlohmann::ordered_json message_item(const std::string& id, const std::string& text,
                                    const char* status);
nlohmann::ordered_json call_item(const std::string& id, int call, const TurnParts::Call& what,
                                 const char* status);

/// Returns OpenAI's response object. `output`: a JSON list.
nlohmann::ordered_json response_json(const wire::RequestInfo& info, const std::string& echo,
                                     nlohmann::ordered_json output,
                                     const UsageDetails& details = {});
/// Returns "queued", "in_progress", "completed", "incomplete", "failed" or "cancelled".
std::string response_status(const wire::RequestInfo& info);

}  // namespace holdfast::gateway
