#include "shared/wire/zap.h"

#include <zmq.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "shared/wire/curve.h"

namespace holdfast::wire {
namespace {

constexpr const char* kAddress = "inproc://zeromq.zap.01";
constexpr int kAnswersMax = 64;  // a turn of the loop
constexpr std::string_view kVersion = "1.0";
// Frames of a question, after the two of the REQ envelope that a REP socket takes off.
constexpr std::size_t kVersionAt = 0, kSequenceAt = 1, kMechanismAt = 5, kKeyAt = 6, kFrames = 7;

/// Receives all parts of a question. False: there is none.
bool receive_parts(void* socket, std::vector<std::string>& parts) {
  parts.clear();
  for (bool more = true; more;) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    const int n = zmq_msg_recv(&part, socket, ZMQ_DONTWAIT);
    if (n >= 0) {
      parts.emplace_back(static_cast<const char*>(zmq_msg_data(&part)), zmq_msg_size(&part));
      more = zmq_msg_more(&part) != 0;
    }
    zmq_msg_close(&part);
    if (n < 0 && zmq_errno() != EINTR) return false;
  }
  return true;
}

void send_parts(void* socket, const std::vector<std::string>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const int flags = i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
    // Within the process nothing can be full; the asker may have gone away meanwhile.
    (void)zmq_send(socket, parts[i].data(), parts[i].size(), flags | ZMQ_DONTWAIT);
  }
}

}  // namespace

Result<ZapHandler> ZapHandler::open(const Context& context) {
  void* socket = zmq_socket(context.raw(), ZMQ_REP);
  if (socket == nullptr) return Error{Errc::kIo, "open ZAP handler: no socket"};
  ZapHandler handler(socket);
  const int none = 0;
  zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
  if (zmq_bind(socket, kAddress) != 0) {
    return Error{Errc::kIo, std::string("open ZAP handler: ") + zmq_strerror(zmq_errno())};
  }
  return handler;
}

ZapHandler::ZapHandler(ZapHandler&& other) noexcept
    : socket_(std::exchange(other.socket_, nullptr)),
      accepted_(other.accepted_),
      refused_(other.refused_) {}

ZapHandler& ZapHandler::operator=(ZapHandler&& other) noexcept {
  std::swap(socket_, other.socket_);
  accepted_ = other.accepted_;
  refused_ = other.refused_;
  return *this;
}

ZapHandler::~ZapHandler() {
  if (socket_ != nullptr) zmq_close(socket_);
}

void ZapHandler::answer(const Judge& judge) {
  for (int i = 0; i < kAnswersMax && answer_one(judge); ++i) {
  }
}

bool ZapHandler::answer_one(const Judge& judge) {
  std::vector<std::string> parts;
  if (!receive_parts(socket_, parts)) return false;
  const bool whole = parts.size() == kFrames && parts[kVersionAt] == kVersion &&
                     parts[kMechanismAt] == "CURVE" && parts[kKeyAt].size() == kCurveKeyBytes;
  const auto user = whole ? judge(curve_key_text(parts[kKeyAt])) : std::nullopt;
  ++(user ? accepted_ : refused_);
  send_parts(socket_, {std::string(kVersion),
                       parts.size() > kSequenceAt ? parts[kSequenceAt] : std::string(),
                       user ? "200" : "400", user ? "OK" : "no valid key", user.value_or(""), ""});
  return true;
}

}  // namespace holdfast::wire
