#include "tests/process/http_stream.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace holdfast::process {
namespace {

using nlohmann::json;

constexpr int kPatienceS = 60;  // for the next byte
constexpr int kConnectionsMax = 2'000;

int connect_to(const std::string& url) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{kPatienceS, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0) return fd;
  close(fd);
  return -1;
}

/// The bytes of one connection, with a buffer.
class Reader {
 public:
  explicit Reader(int fd) : fd_(fd) {}
  bool until(const std::string& mark, std::string* out) {
    std::size_t at = 0;
    while ((at = in_.find(mark)) == std::string::npos) {
      if (!fill()) return false;
    }
    *out = in_.substr(0, at);
    in_.erase(0, at + mark.size());
    return true;
  }
  bool exactly(std::size_t size, std::string* out) {
    while (in_.size() < size) {
      if (!fill()) return false;
    }
    *out = in_.substr(0, size);
    in_.erase(0, size);
    return true;
  }

 private:
  bool fill() {
    char buffer[16'384];
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    if (n <= 0) return false;
    in_.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  int fd_;
  std::string in_;
};

bool read_head(Reader& reader, HttpAnswer* answer) {
  std::string head;
  if (!reader.until("\r\n\r\n", &head) || head.size() < 12) return false;
  std::istringstream lines(head);
  std::string line;
  std::getline(lines, line);
  answer->status = std::stoi(line.substr(9, 3));
  while (std::getline(lines, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), ::tolower);
    answer->headers[name] = line.substr(colon + 2);
  }
  return true;
}

/// Returns when the body has ended or was cut.
void read_body(Reader& reader, HttpAnswer* answer,
               const std::function<void(const std::string&)>& on_body) {
  std::string chunk;
  if (answer->headers.count("content-length") > 0) {
    if (!reader.exactly(std::stoul(answer->headers["content-length"]), &answer->body)) return;
    answer->complete = true;
    if (on_body) on_body(answer->body);
    return;
  }
  for (;;) {
    std::string size;
    if (!reader.until("\r\n", &size)) return;
    const std::size_t bytes = std::stoul(size, nullptr, 16);
    if (!reader.exactly(bytes + 2, &chunk)) return;
    if (bytes == 0) break;
    chunk.resize(bytes);
    answer->body += chunk;
    if (on_body) on_body(chunk);
  }
  answer->complete = true;
}

std::string header_lines(const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string out = "Host: localhost\r\nConnection: close\r\n";
  for (const auto& [name, value] : headers) out += name + ": " + value + "\r\n";
  return out;
}

/// Parses the events of one connection from chunks.
class SseParser {
 public:
  template <class F>
  void feed(const std::string& chunk, F on_event) {
    in_ += chunk;
    for (std::size_t end = 0; (end = in_.find("\n\n")) != std::string::npos;) {
      std::istringstream lines(in_.substr(0, end));
      in_.erase(0, end + 2);
      std::string id;
      std::string data;
      for (std::string line; std::getline(lines, line);) {
        if (line.rfind("id: ", 0) == 0) id = line.substr(4);
        if (line.rfind("data: ", 0) == 0) data += line.substr(6);
      }
      if (!data.empty()) on_event(id, data);
    }
  }

 private:
  std::string in_;
};

/// The state of one client over its connections.
class SseReader {
 public:
  explicit SseReader(const std::function<void(const SseResult&)>& on_progress)
      : on_progress_(on_progress) {}
  SseResult result;
  std::string last_id;
  bool done = false;

  void on_event(const std::string& id, const std::string& data) {
    if (data == "[DONE]") {
      done = true;
      return;
    }
    const json chunk = json::parse(data, nullptr, false);
    if (!chunk.is_object()) return fail("an event that is no JSON: " + data);
    if (chunk.contains("error")) {
      // The gateway ends, the request does not: the client attaches again.
      if (chunk["error"].value("code", "") == "draining") return;
      return fail("an error event: " + data);
    }
    if (!take_id(id)) return;
    for (const json& choice : chunk.value("choices", json::array())) take_choice(choice);
    result.text_at[result.index] = result.text;
    if (on_progress_) on_progress_(result);
  }

  void fail(const std::string& why) {
    if (result.failure.empty()) result.failure = why;
  }

 private:
  void take_choice(const json& choice) {
    ChoiceResult& to = result.choices[choice.value("index", 0)];
    std::string text = choice.value("text", "");
    if (choice.contains("delta")) {
      const json& delta = choice["delta"];
      text += delta.value("content", "");
      to.reasoning += delta.value("reasoning_content", "");
      for (const json& call : delta.value("tool_calls", json::array())) {
        const json& function = call.at("function");
        to.calls += function.value("name", "") + function.value("arguments", "");
      }
    }
    to.text += text;
    result.text += text;
    if (choice.contains("finish_reason") && choice["finish_reason"].is_string()) {
      to.finish = result.finish = choice["finish_reason"];
    }
  }

  /// Takes an event id: REQUEST.INDEX, with an index for each choice.
  bool take_id(const std::string& id) {
    const std::size_t dot = id.rfind('.');
    if (dot == std::string::npos) return fail("an event without an id"), false;
    if (result.request_id.empty()) result.request_id = id.substr(0, dot);
    if (id.substr(0, dot) != result.request_id) return fail("another request: " + id), false;
    std::istringstream all(id.substr(dot + 1));
    std::int64_t sum = 0;
    std::size_t choice = 0;
    for (std::string one; std::getline(all, one, ','); ++choice) {
      const std::int64_t index = std::stoll(one);
      if (choice == choice_indexes_.size()) choice_indexes_.push_back(0);
      if (index < choice_indexes_[choice])
        return fail("ids go back: " + id + " after " + last_id), false;
      choice_indexes_[choice] = index;
      sum += index;
    }
    result.index = sum;
    last_id = id;
    return true;
  }

  std::vector<std::int64_t> choice_indexes_;
  const std::function<void(const SseResult&)>& on_progress_;
};

std::string next_request(const SseReader& sse_reader, const std::string& path,
                         const std::string& body, const std::string& key, Resume resume) {
  std::vector<std::pair<std::string, std::string>> headers;
  if (sse_reader.last_id.empty() || resume == Resume::kPost) {
    headers.emplace_back("Idempotency-Key", key);
    if (!sse_reader.last_id.empty()) headers.emplace_back("Last-Event-ID", sse_reader.last_id);
    return http_post_text(path, body, headers);
  }
  const std::string stream = "/v1/requests/" + sse_reader.result.request_id + "/stream";
  if (resume == Resume::kGetFrom) {
    return http_get_text(stream + "?from=" + std::to_string(sse_reader.result.index));
  }
  headers.emplace_back("Last-Event-ID", sse_reader.last_id);
  return http_get_text(stream, headers);
}

}  // namespace

HttpAnswer http_exchange(const std::string& url, const std::string& request,
                         const std::function<void(const std::string&)>& on_body) {
  HttpAnswer answer;
  const int fd = connect_to(url);
  if (fd < 0) return answer;
  std::size_t sent = 0;
  while (sent < request.size()) {
    const ssize_t n = send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<std::size_t>(n);
  }
  Reader reader(fd);
  if (read_head(reader, &answer)) read_body(reader, &answer, on_body);
  close(fd);
  return answer;
}

std::string http_post_text(const std::string& path, const std::string& body,
                           const std::vector<std::pair<std::string, std::string>>& headers) {
  return "POST " + path + " HTTP/1.1\r\n" + header_lines(headers) +
         "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

std::string http_get_text(const std::string& path,
                          const std::vector<std::pair<std::string, std::string>>& headers) {
  return "GET " + path + " HTTP/1.1\r\n" + header_lines(headers) + "\r\n";
}

SseResult stream_sse(const std::function<std::string()>& url, const std::string& path,
                     const std::string& body, const std::string& key, Resume resume,
                     const std::function<void(const SseResult&)>& on_progress, bool patient) {
  SseReader sse_reader(on_progress);
  while (!sse_reader.done && sse_reader.result.failure.empty()) {
    if (++sse_reader.result.connections > kConnectionsMax) {
      sse_reader.fail("no end after " + std::to_string(kConnectionsMax) + " connections");
      break;
    }
    SseParser parser;
    const HttpAnswer answer = http_exchange(
        url(), next_request(sse_reader, path, body, key, resume), [&](const std::string& chunk) {
          parser.feed(chunk, [&](const std::string& id, const std::string& data) {
            sse_reader.on_event(id, data);
          });
        });
    const bool passing =
        patient && (answer.status == 429 || answer.status == 503 || answer.status == 504);
    if (answer.status != 0 && answer.status != 200 && !passing) {
      sse_reader.fail("status " + std::to_string(answer.status) + ": " + answer.body);
    }
    if (!sse_reader.done) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return sse_reader.result;
}

SseResult stream_sse(const std::string& url, const std::string& path, const std::string& body,
                     const std::string& key, Resume resume,
                     const std::function<void(std::int64_t)>& on_progress) {
  return stream_sse([&] { return url; }, path, body, key, resume,
                    [&](const SseResult& so_far) {
                      if (on_progress) on_progress(so_far.index);
                    },
                    false);
}

}  // namespace holdfast::process
