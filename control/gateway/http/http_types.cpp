#include "control/gateway/http/http_types.h"

#include <algorithm>

namespace holdfast::gateway {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  // A value may contain what a client sent (a parameter's name): it must not end the line.
  for (const char c : value) out.push_back(static_cast<unsigned char>(c) < 0x20 ? ' ' : c);
  out.append("\r\n");
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

const std::string* Request::header(std::string_view name) const {
  for (const Header& h : headers) {
    if (equal_ignoring_case(h.first, name)) return &h.second;
  }
  return nullptr;
}

const std::string* Request::query_value(std::string_view name) const {
  for (const Header& q : query) {
    if (q.first == name) return &q.second;
  }
  return nullptr;
}

std::string client_request_id(const Request& request) {
  constexpr std::size_t kBytesMax = 128;
  const std::string* id = request.header("X-Client-Request-Id");
  if (id == nullptr) id = request.header("X-Request-Id");
  if (id == nullptr || id->size() > kBytesMax) return {};
  const bool visible =
      std::all_of(id->begin(), id->end(), [](char c) { return c > 0x20 && c < 0x7f; });
  return visible ? *id : std::string();
}

std::string_view reason_phrase(int status) {
  static constexpr std::pair<int, std::string_view> kPhrases[] = {
      {100, "Continue"},
      {101, "Switching Protocols"},
      {200, "OK"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {426, "Upgrade Required"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
      {507, "Insufficient Storage"},
  };
  for (const auto& [code, phrase] : kPhrases) {
    if (code == status) return phrase;
  }
  return "Status";
}

std::string response_head(const Response& response, bool http11, bool close, std::int64_t length) {
  std::string out = http11 ? "HTTP/1.1 " : "HTTP/1.0 ";
  out.append(std::to_string(response.status)).append(" ").append(reason_phrase(response.status));
  out.append("\r\n");
  if (!response.content_type.empty()) append_header(out, "Content-Type", response.content_type);
  for (const Header& h : response.headers) append_header(out, h.first, h.second);
  if (response.status == 304) {
    // Its length would be that of the body that is not sent.
  } else if (length >= 0) {
    append_header(out, "Content-Length", std::to_string(length));
  } else if (http11) {
    append_header(out, "Transfer-Encoding", "chunked");
  }
  if (close) {
    append_header(out, "Connection", "close");
  } else if (!http11) {
    append_header(out, "Connection", "keep-alive");
  }
  out.append("\r\n");
  return out;
}

std::optional<std::string> percent_decode(std::string_view text, bool form) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]);
      const int low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(form && text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

}  // namespace holdfast::gateway
