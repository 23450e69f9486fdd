#include "shared/remote/operator.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "shared/base/json_text.h"

namespace holdfast::remote {
namespace {

using nlohmann::json;

constexpr auto kRestartPatience = std::chrono::seconds(10);
constexpr auto kPause = std::chrono::milliseconds(200);
constexpr int kUnauthorizedStatus = 401, kForbidden = 403, kServerFault = 500;

/// True for verbs that read alone, which may be asked twice.
bool is_question(std::string_view verb) {
  constexpr std::string_view kEnds[] = {"status",   ".list", ".show",  ".get",     ".explain",
                                        ".history", ".diff", ".stats", ".aliases", "_history"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return verb.ends_with(end); });
}

void take_number(const json& error, const char* name, std::int64_t* out) {
  const auto found = error.find(name);
  if (found != error.end() && found->is_number_integer()) *out = found->get<std::int64_t>();
}

std::string text_of(const json& error, const char* name) {
  const auto found = error.find(name);
  return found != error.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string key_hint(const Address& address, int status, const std::string& role) {
  if (status != kUnauthorizedStatus && status != kForbidden) return {};
  return std::string("; ") + (address.key.empty() ? "no key was sent" : "a key was sent") + ": " +
         role + " is wanted, in HOLDFAST_API_KEY or the file of HOLDFAST_API_KEY_FILE";
}

/// The verbs of the socket that HTTP does not have are told as that.
client::Failure about_verb(const Address& address, const std::string& verb,
                           client::Failure failure) {
  if (failure.code == Errc::kNotFound && failure.message.ends_with("no such verb")) {
    failure.code = Errc::kUsage;
    failure.message = verb + ": " + address.url +
                      " does not do it over HTTP; run it on the machine of that server, without "
                      "HOLDFAST_URL";
  }
  return failure;
}

/// True if the daemon, or its gateway, is being started again.
bool is_away(const client::Failure& failure) {
  return failure.code == Errc::kUnreachable || failure.code == Errc::kDraining;
}

/// A verb that has no result.
struct Refused {
  client::Failure failure;
  bool may_come_back = false;  // a gateway, or the daemon, is perhaps being started again
};

/// Reads why a verb has no result.
Refused read_refusal(const Address& address, const std::string& verb,
                     const Result<HttpReply>& reply) {
  if (reply) {
    client::Failure failure =
        about_verb(address, verb, refusal_of(address, *reply, "an operator's key"));
    const bool away = reply->status >= kServerFault && is_away(failure);
    return {std::move(failure), away};
  }
  Refused refused{failure_of(reply.error()), reply.error().code == Errc::kIo};
  if (refused.may_come_back) {
    refused.failure.message +=
        "; the connection ended before the answer: a change was made whole or not at all, so look "
        "before asking again";
  }
  return refused;
}

}  // namespace

client::Failure failure_of(const Error& error) {
  client::Failure failure;
  failure.code = error.code == Errc::kIo ? Errc::kUnreachable : error.code;
  failure.message = error.what;
  return failure;
}

client::Failure refusal_of(const Address& address, const HttpReply& reply,
                           const std::string& role) {
  client::Failure failure;
  const json document = try_parse_json<json>(reply.body, kBodyLimits);
  const bool ours = document.is_object() && document.contains("error") &&
                    document["error"].is_object() && document["error"].contains("code");
  if (!ours) {
    failure.code = Errc::kUnreachable;
    failure.message = address.url + " answers with status " + std::to_string(reply.status) +
                      " and no error of Holdfast's; expected its gateway";
    return failure;
  }
  const json& error = document["error"];
  const std::string ours_code = text_of(error, "holdfast_code");
  failure.code = errc_from_name(ours_code.empty() ? text_of(error, "code") : ours_code);
  failure.message = text_of(error, "message") + key_hint(address, reply.status, role);
  take_number(error, "needed", &failure.needed);
  take_number(error, "free", &failure.free);
  take_number(error, "largest", &failure.largest);
  take_number(error, "retry_after_ms", &failure.retry_after_ms);
  take_number(error, "queue_position", &failure.queue_position);
  take_number(error, "eta_ms", &failure.eta_ms);
  return failure;
}

client::Answer<std::string> operate(const Address& address, const std::string& verb,
                                    const std::string& args, std::chrono::milliseconds timeout) {
  HttpCall call;
  call.method = "POST";
  call.path = "/console/api/" + verb;
  call.body = args;
  call.timeout = timeout;
  const auto patience = std::min<std::chrono::milliseconds>(timeout, kRestartPatience);
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto reply = exchange(address, call);
    if (reply && reply->status / 100 == 2) return std::move(reply->body);
    Refused refused = read_refusal(address, verb, reply);
    const bool again =
        refused.may_come_back && is_question(verb) && std::chrono::steady_clock::now() < until;
    if (!again) return std::move(refused.failure);
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace holdfast::remote
