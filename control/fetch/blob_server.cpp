#include "control/fetch/blob_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "shared/base/json_text.h"
#include "shared/base/local_socket.h"
#include "shared/base/log.h"
#include "shared/base/supervisor_note.h"
#include "shared/pull/blob.h"

namespace holdfast::fetch {
namespace {

using nlohmann::json;

constexpr std::size_t kConnectionsMax = 16;
constexpr std::size_t kReadBytes = 256 * 1024;
constexpr int kLookMs = 200;        // between two looks at whether the process stops
constexpr int kSilenceMs = 60'000;  // of the gateway, whose own clients have less
constexpr int kNoteMs = 2'000;      // until the supervisor's note knows a new gateway
constexpr std::int64_t kBytesMax = std::int64_t{1} << 44;

/// True if the supervisor's note names the process as its gateway, or names no gateway.
bool may_ask(pid_t pid, const std::string& run_dir) {
  bool found = false;
  for (const SupervisedChild& child : read_supervisor_note(run_dir).children) {
    if (child.role != "gateway") continue;
    if (child.pid == pid) return true;
    found = true;
  }
  return !found;
}

/// One connection, from its question to its answer.
class BlobSession {
 public:
  BlobSession(int fd, const std::string& run_dir, BlobStore& store,
              const std::atomic<bool>& stopping)
      : fd_(fd), run_dir_(run_dir), store_(store), stopping_(stopping), buffer_(kReadBytes) {}
  ~BlobSession() { close(fd_); }
  BlobSession(const BlobSession&) = delete;
  BlobSession& operator=(const BlobSession&) = delete;

  void run() {
    if (!is_gateway()) return;
    const auto answered = answer();
    if (answered) return send_line({{"bytes", *answered}});
    const Error& error = answered.error();
    if (error.code == Errc::kCancelled) return;
    send_line({{"error", {{"code", errc_name(error.code)}, {"message", error.what}}}});
  }

 private:
  bool is_gateway() const;
  Result<std::int64_t> answer();
  Result<std::int64_t> store(const std::string& digits, std::int64_t bytes);
  Result<std::string> read_line();
  Result<std::string_view> read_some();
  void send_line(const json& line);

  const int fd_;
  const std::string& run_dir_;
  BlobStore& store_;
  const std::atomic<bool>& stopping_;
  std::vector<char> buffer_;
  std::string early_;  // bytes that came with the question
};

bool BlobSession::is_gateway() const {
  const pid_t pid = peer_process(fd_);
  for (int waited = 0; pid != 0 && waited <= kNoteMs && !stopping_; waited += kLookMs) {
    if (may_ask(pid, run_dir_)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
  }
  log::warn("a process that is not the gateway asked for blobs", {{"pid", std::int64_t{pid}}});
  return false;
}

/// Reads what is there; empty: the other side has ended. kCancelled: it is silent, or this process
/// stops.
Result<std::string_view> BlobSession::read_some() {
  for (int waited = 0; waited < kSilenceMs && !stopping_; waited += kLookMs) {
    pollfd wait{fd_, POLLIN, 0};
    if (poll(&wait, 1, kLookMs) <= 0) continue;
    const ssize_t got = recv(fd_, buffer_.data(), buffer_.size(), 0);
    if (got < 0) break;
    return std::string_view(buffer_.data(), static_cast<std::size_t>(got));
  }
  return Error{Errc::kCancelled, "the connection ended"};
}

Result<std::string> BlobSession::read_line() {
  std::string text;
  while (text.find('\n') == std::string::npos) {
    HOLDFAST_TRY(const std::string_view bytes, read_some());
    if (bytes.empty()) return Error{Errc::kCancelled, "the connection ended"};
    text += bytes;
    if (text.find('\n') == std::string::npos && text.size() > pull::kBlobLineBytesMax) {
      return Error{Errc::kInvalidRequest, "the question is longer than a line may be"};
    }
  }
  const std::size_t end = text.find('\n');
  early_ = text.substr(end + 1);
  text.resize(end);
  return text;
}

Result<std::int64_t> BlobSession::answer() {
  HOLDFAST_TRY(const std::string line, read_line());
  const auto question = try_parse_json<json>(line);
  const auto text = [&](const char* member) {
    const bool there = question.is_object() && question.contains(member);
    return there && question[member].is_string() ? question[member].get<std::string>() : "";
  };
  const auto digits = pull::digest_digits(text("digest"));
  if (!digits) return Error{Errc::kInvalidRequest, "digest: expected sha256: and 64 digits"};
  if (text("verb") == "find") return store_.find(*digits);
  if (text("verb") != "store") return Error{Errc::kInvalidRequest, "verb: expected find or store"};
  const json bytes = question.value("bytes", json(-1));
  const bool good = bytes.is_number_integer() && bytes >= -1 && bytes <= kBytesMax;
  if (!good) return Error{Errc::kInvalidRequest, "bytes: expected a length"};
  return store(*digits, bytes.get<std::int64_t>());
}

Result<std::int64_t> BlobSession::store(const std::string& digits, std::int64_t bytes) {
  HOLDFAST_TRY(const auto writer, store_.begin(digits, bytes));
  HOLDFAST_CHECKED(writer->add(early_));
  while (true) {
    HOLDFAST_TRY(const std::string_view part, read_some());
    if (part.empty()) break;
    HOLDFAST_CHECKED(writer->add(part));
  }
  HOLDFAST_CHECKED(writer->finish());
  log::info("a blob was stored", {{"digest", "sha256:" + digits}, {"bytes", writer->bytes()}});
  return writer->bytes();
}

void BlobSession::send_line(const json& line) {
  const std::string text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  (void)send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
}

}  // namespace

Result<std::unique_ptr<BlobServer>> BlobServer::open(const std::string& run_dir, BlobStore& store) {
  HOLDFAST_TRY(const int listener, listen_locally(run_dir + "/" + pull::kBlobSocket, SOCK_STREAM,
                                                  static_cast<int>(kConnectionsMax)));
  return std::unique_ptr<BlobServer>(new BlobServer(listener, run_dir, store));
}

BlobServer::~BlobServer() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  close(listener_);
}

void BlobServer::start() {
  thread_ = std::thread([this] { serve(); });
}

void BlobServer::serve() {
  while (!stopping_) {
    join_ended(false);
    pollfd wait{listener_, POLLIN, 0};
    if (poll(&wait, 1, kLookMs) > 0) accept_one();
  }
  join_ended(true);
}

void BlobServer::accept_one() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return;
  if (connections_.size() >= kConnectionsMax) {
    close(fd);
    return;
  }
  Connection& connection = connections_.emplace_back();
  connection.thread = std::thread([this, fd, &connection] {
    BlobSession(fd, run_dir_, store_, stopping_).run();
    connection.ended = true;
  });
}

void BlobServer::join_ended(bool all) {
  std::erase_if(connections_, [&](Connection& connection) {
    if (!all && !connection.ended) return false;
    connection.thread.join();
    return true;
  });
}

}  // namespace holdfast::fetch
