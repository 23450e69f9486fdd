#include "tests/process/model_hub.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

namespace holdfast::process {
namespace {

/// Template, parameters and system message of a registry's model.
constexpr const char* kLayers[] = {"{{ .System }}|{{ .Prompt }}|",
                                   R"({"temperature":0.5,"num_gpu":1})", "Arr"};

using nlohmann::json;

const char* const kRevision = "0123456789abcdef0123456789abcdef01234567";

std::string digest_text(const EVP_MD* kind, const std::string& bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &length, kind, nullptr);
  std::string text;
  char two[3];
  for (unsigned i = 0; i < length; ++i) {
    std::snprintf(two, sizeof two, "%02x", digest[i]);
    text += two;
  }
  return text;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string head_of(int status, const std::string& headers, std::size_t length) {
  return "HTTP/1.1 " + std::to_string(status) + " x\r\n" + headers +
         "Content-Length: " + std::to_string(length) + "\r\nConnection: close\r\n\r\n";
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

std::string sha256_text(const std::string& bytes) {
  return digest_text(EVP_sha256(), bytes);
}

ModelHub::ModelHub() {
  restart();
}

ModelHub::~ModelHub() {
  stop();
}

void ModelHub::restart() {
  stopping_ = false;
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port_));
  ASSERT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener_, 64), 0);
  socklen_t length = sizeof address;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

void ModelHub::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  for (std::thread& connection : connections_) connection.join();
  connections_.clear();
  if (listener_ >= 0) close(std::exchange(listener_, -1));
}

void ModelHub::put(const std::string& repository, const std::string& path,
                   const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  repositories_[repository][path] = bytes;
}

void ModelHub::set_faults(const HubFaults& faults) {
  const std::lock_guard lock(mutex_);
  faults_ = faults;
}

void ModelHub::run() {
  while (!stopping_) {
    pollfd waiting{listener_, POLLIN, 0};
    if (poll(&waiting, 1, 20) <= 0) continue;
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) connections_.emplace_back([this, fd] { serve(fd), close(fd); });
  }
}

/// The hub's list of a repository's files.
std::string ModelHub::hub_list(const std::string& repository) {
  json siblings = json::array();
  for (const auto& [path, bytes] : repositories_[repository]) {
    json file = {{"rfilename", faults_.bad_names ? "../../" + path : path},
                 {"size", bytes.size()},
                 {"blobId", digest_text(EVP_sha1(), "blob " + std::to_string(bytes.size()) +
                                                        std::string(1, '\0') + bytes)}};
    const bool large = path.ends_with(".gguf") || path.ends_with(".safetensors");
    if (large) {
      file["lfs"] = {{"sha256", sha256_text(bytes)}, {"size", bytes.size()}, {"pointerSize", 134}};
    }
    if (faults_.no_hash) file = {{"rfilename", path}, {"size", bytes.size()}};
    siblings.push_back(std::move(file));
  }
  return json{{"id", repository}, {"sha", kRevision}, {"siblings", siblings}}.dump();
}

std::string ModelHub::manifest(const std::string& repository) {
  const std::string& bytes = repositories_[repository].begin()->second;
  const auto layer = [](const char* type, const std::string& of) {
    return json{{"mediaType", type}, {"digest", "sha256:" + sha256_text(of)}, {"size", of.size()}};
  };
  return json{{"schemaVersion", 2},
              {"layers",
               {layer("application/vnd.ollama.image.model", bytes),
                layer("application/vnd.ollama.image.template", kLayers[0]),
                layer("application/vnd.ollama.image.params", kLayers[1]),
                layer("application/vnd.ollama.image.system", kLayers[2])}}}
      .dump();
}

/// Returns the head of an answer other than a file's; for a file its bytes are in `body`.
std::string ModelHub::answer_to(const Request& request, std::string* body, bool* is_file) {
  const std::lock_guard lock(mutex_);
  const auto status = [&](int code, const std::string& headers = {}) {
    *body = "{\"error\":\"" + std::to_string(code) + "\"}";
    return head_of(code, headers, body->size());
  };
  if (faults_.status != 0) return status(faults_.status);
  const auto authorization = request.headers.find("authorization");
  const std::string given =
      authorization == request.headers.end() ? std::string() : authorization->second;
  const auto file = [&](const std::string& bytes) {
    *is_file = true;
    *body = bytes;
    return std::string();
  };
  const std::string& path = request.path;
  for (const auto& [repository, files] : repositories_) {
    const std::string registry = "/v2/" + repository + "/";
    if (path == "/api/models/" + repository + "/revision/main") {
      if (faults_.wants_token && given != "Bearer hub-token") return status(401);
      *body = hub_list(repository);
      return head_of(200, "Content-Type: application/json\r\n", body->size());
    }
    if (path.starts_with(registry) && given != "Bearer registry-token") {
      return status(401, "WWW-Authenticate: Bearer realm=\"" + url() +
                             "/token\",service=\"models\",scope=\"repository:" + repository +
                             ":pull\"\r\n");
    }
    if (path == registry + "manifests/latest") {
      *body = manifest(repository);
      return head_of(200, "Content-Type: application/json\r\n", body->size());
    }
    for (const auto& [name, bytes] : files) {
      const std::string at = repository + "/resolve/" + kRevision + "/" + name;
      if (path == "/" + at) {
        std::string target = "Location: http://localhost:" + std::to_string(port_);
        target.append("/cdn/").append(at).append("?signature=secret\r\n");
        return status(302, target);
      }
      if (path == "/cdn/" + at) {
        // The hub's token is not for the content network.
        if (!given.empty()) return status(400);
        return file(bytes);
      }
      if (path == "/files/" + name) return file(bytes);
      if (path == registry + "blobs/sha256:" + sha256_text(bytes)) return file(bytes);
    }
  }
  for (const char* layer : kLayers) {
    if (path.ends_with("/blobs/sha256:" + sha256_text(layer))) return file(layer);
  }
  if (path == "/token" && faults_.token_for_tokens) {
    return status(401, "WWW-Authenticate: Bearer realm=\"" + url() + "/token\"\r\n");
  }
  if (path == "/token") {
    *body = R"({"token":"registry-token"})";
    return head_of(200, "Content-Type: application/json\r\n", body->size());
  }
  return status(404);
}

void ModelHub::send_file(int fd, const Request& request, const std::string& bytes) {
  HubFaults faults;
  {
    const std::lock_guard lock(mutex_);
    faults = faults_;
  }
  std::string content = bytes;
  if (faults.other_bytes)
    content[content.size() / 2] = static_cast<char>(~content[content.size() / 2]);
  if (faults.more_bytes) content += "and more";
  std::size_t from = 0;
  const auto range = request.headers.find("range");
  if (range != request.headers.end() && !faults.no_ranges) {
    from =
        static_cast<std::size_t>(std::atoll(range->second.c_str() + std::string("bytes=").size()));
    if (faults.wrong_range && from > 0) --from;
  }
  const std::string total = std::to_string(content.size());
  const std::string tag = "ETag: \"" + sha256_text(content).substr(0, 16) + "\"\r\n";
  const bool partial = range != request.headers.end() && !faults.no_ranges;
  const std::string span = "Content-Range: bytes " + std::to_string(from) + "-" +
                           std::to_string(content.size() - 1) + "/" + total + "\r\n";
  std::string_view rest = std::string_view(content).substr(std::min(from, content.size()));
  if (!send_all(fd, head_of(partial ? 206 : 200, tag + (partial ? span : ""), rest.size()))) return;
  std::int64_t left = faults.drop_after > 0 ? faults.drop_after : std::int64_t{1} << 60;
  constexpr std::size_t kPart = 16 * 1024;
  while (!rest.empty() && !stopping_ && left > 0) {
    const std::size_t part = std::min(
        {rest.size(), kPart, static_cast<std::size_t>(std::min<std::int64_t>(left, kPart))});
    if (!send_all(fd, rest.substr(0, part))) return;
    sent_ += static_cast<std::int64_t>(part);
    left -= static_cast<std::int64_t>(part);
    rest.remove_prefix(part);
    if (faults.bytes_s > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(part * 1'000'000 / faults.bytes_s));
    }
  }
}

void ModelHub::serve(int fd) {
  std::string text;
  char buffer[4096];
  while (text.find("\r\n\r\n") == std::string::npos && !stopping_) {
    const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) return;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ++requests_;
  Request request;
  std::istringstream lines(text);
  std::string method, target, line;
  lines >> method >> target;
  std::getline(lines, line);
  request.path = target.substr(0, target.find('?'));
  while (std::getline(lines, line) && line != "\r") {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string value = line.substr(colon + 2);
    value.erase(value.find_last_not_of('\r') + 1);
    request.headers[lower(line.substr(0, colon))] = value;
  }
  std::string body;
  bool is_file = false;
  const std::string head = answer_to(request, &body, &is_file);
  if (is_file) return send_file(fd, request, body);
  send_all(fd, head + body);
}

}  // namespace holdfast::process
