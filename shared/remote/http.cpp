#include "shared/remote/http.h"

#include <utility>

#include "shared/http_client/http_client.h"

namespace holdfast::remote {
namespace {

constexpr int kRedirectFrom = 300, kRedirectTo = 400, kOk = 200;

Error redirected(const Address& address, const http::Head& head) {
  const std::string target = head.header("location");
  return {Errc::kInvalidRequest,
          address.url + ": answers with a redirect" +
              (target.empty() ? std::string() : " to " + target) +
              ", which is not followed: the key must not go to another place; expected the "
              "gateway itself: name it in HOLDFAST_URL"};
}

Error error_of(const Address& address, const http::Failure& failure) {
  const std::string& reason = failure.reason;
  switch (failure.trouble) {
    case http::Trouble::kEnded:
      return {Errc::kCancelled, address.url + ": " + reason};
    case http::Trouble::kNoConnection:
      return {Errc::kUnreachable, address.url + " does not answer: " + reason +
                                      "; is `holdfast serve --http` running there?"};
    case http::Trouble::kUntrusted:
      return {Errc::kUnreachable, address.url + " cannot be trusted: " + reason +
                                      "; HOLDFAST_CA_FILE names a file of authorities"};
    case http::Trouble::kTls:
      return {Errc::kUnreachable,
              address.url + " does not speak TLS as expected: " + reason + "; is it http://?"};
    case http::Trouble::kTimeout:
      return {Errc::kTimeout, address.url + " does not answer in time: " + reason};
    case http::Trouble::kBroken:
      break;
  }
  return {Errc::kIo, address.url + ": " + reason};
}

http::Request request_of(const Address& address, const HttpCall& call) {
  http::Request request;
  request.method = call.method;
  request.url = address.url + call.path;
  request.body = call.body;
  request.plain_http = true;  // the user has named the URL
  request.ca_file = address.ca_file;
  request.timeout = call.timeout;
  request.silence = call.silence;
  request.stopping = call.stopping;
  if (!address.key.empty()) request.headers.push_back("Authorization: Bearer " + address.key);
  request.headers.insert(request.headers.end(), call.headers.begin(), call.headers.end());
  return request;
}

}  // namespace

std::string HttpReply::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

Result<HttpReply> exchange(const Address& address, const HttpCall& call) {
  HttpReply reply;
  bool too_long = false;
  http::Request request = request_of(address, call);
  request.on_head = [&](const http::Head& head) {
    reply.streamed = call.stream && head.status == kOk &&
                     head.header("content-type").starts_with("text/event-stream");
    return true;
  };
  request.on_bytes = [&](std::string_view part) {
    if (reply.streamed) return call.stream(part);
    too_long = reply.body.size() + part.size() > kAnswerBytesMax;
    if (!too_long) reply.body += part;
    return !too_long;
  };
  auto answer = http::send(request);
  if (too_long) {
    return Error{Errc::kInvalidRequest, request.url + ": the answer has more than " +
                                            std::to_string(kAnswerBytesMax) + " bytes"};
  }
  if (const auto* failure = std::get_if<http::Failure>(&answer)) return error_of(address, *failure);
  auto& head = std::get<http::Head>(answer);
  if (head.status >= kRedirectFrom && head.status < kRedirectTo) return redirected(address, head);
  reply.status = head.status;
  reply.headers = std::move(head.headers);
  return reply;
}

}  // namespace holdfast::remote
