#include "control/gateway/ollama/blob_link.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "shared/base/json_text.h"
#include "shared/pull/blob.h"

namespace holdfast::gateway {
namespace {

namespace net = boost::asio;
using boost::system::error_code;
using nlohmann::json;

/// Silence of a store that has to write and to make safe what it got.
constexpr std::chrono::seconds kSilence{120};
/// Tries to reach it, five seconds in all: more than its new start takes after a death.
constexpr std::chrono::milliseconds kTryPause{100};
constexpr int kTries = 50;

Result<std::int64_t> answer_of(const std::string& line) {
  const auto answer = try_parse_json<json>(line);
  if (!answer.is_object()) {
    return Error{Errc::kUnreachable,
                 "the process that stores models (holdfast-fetcher) does not answer; try again"};
  }
  if (answer.contains("error") && answer["error"].is_object()) {
    const json& error = answer["error"];
    return Error{errc_from_name(error.value("code", std::string())),
                 error.value("message", std::string())};
  }
  return answer.value("bytes", std::int64_t{0});
}

/// One connection, from its question to its answer. Everything but the public calls runs on the
/// link's thread.
class Call : public BlobUpload, public std::enable_shared_from_this<Call> {
 public:
  Call(net::io_context& context, const json& question, BlobLink::Answered answered)
      : socket_(context),
        timer_(context),
        line_(question.dump() + "\n"),
        answered_(std::move(answered)) {}

  /// `ready` runs when the question was sent; empty: no bytes follow it.
  void begin(const std::string& path, std::function<void()> ready) {
    ready_ = std::move(ready);
    net::post(socket_.get_executor(),
              [self = shared_from_this(), path] { self->connect(path, kTries); });
  }

  void write(std::string bytes, std::function<void()> taken) override {
    auto shared = std::make_shared<std::string>(std::move(bytes));
    net::post(socket_.get_executor(), [self = shared_from_this(), shared, taken] {
      self->expect_within_silence();
      net::async_write(self->socket_, net::buffer(*shared),
                       [self, shared, taken](const error_code& ec, std::size_t) {
                         // A store that takes no more has an answer, which is being read.
                         if (!ec) taken();
                       });
    });
  }

  void end() override {
    net::post(socket_.get_executor(), [self = shared_from_this()] {
      self->expect_within_silence();
      error_code ignored;
      self->socket_.shutdown(net::socket_base::shutdown_send, ignored);
    });
  }

  void abort() override {
    net::post(socket_.get_executor(), [self = shared_from_this()] {
      self->answered_ = nullptr;
      self->close();
    });
  }

 private:
  void connect(const std::string& path, int tries) {
    error_code ec;
    socket_.connect(net::local::stream_protocol::endpoint(path), ec);  // local: it does not wait
    if (ec) return tries > 1 ? connect_later(path, tries - 1) : answer({});
    expect_within_silence();
    net::async_read_until(
        socket_, net::dynamic_buffer(in_, pull::kBlobLineBytesMax), '\n',
        [self = shared_from_this()](const error_code&, std::size_t) { self->answer(self->in_); });
    net::async_write(socket_, net::buffer(line_),
                     [self = shared_from_this()](const error_code& ec, std::size_t) {
                       if (!ec && self->ready_) std::exchange(self->ready_, nullptr)();
                     });
  }

  /// Waits for a store that starts, or starts again.
  void connect_later(const std::string& path, int tries) {
    error_code ignored;
    socket_.close(ignored);
    timer_.expires_after(kTryPause);
    timer_.async_wait([self = shared_from_this(), path, tries](const error_code& ec) {
      if (!ec && self->answered_) self->connect(path, tries);
    });
  }

  void expect_within_silence() {
    timer_.expires_after(kSilence);
    timer_.async_wait([self = shared_from_this()](const error_code& ec) {
      if (!ec) self->close();  // which ends the reading of the answer
    });
  }

  void answer(const std::string& line) {
    if (auto answered = std::exchange(answered_, nullptr)) answered(answer_of(line));
    close();
  }

  void close() {
    ready_ = nullptr;
    timer_.cancel();
    error_code ignored;
    socket_.close(ignored);
  }

  net::local::stream_protocol::socket socket_;
  net::steady_timer timer_;
  const std::string line_;
  std::string in_;
  std::function<void()> ready_;
  BlobLink::Answered answered_;
};

}  // namespace

struct BlobLink::Thread {
  net::io_context context;
  net::executor_work_guard<net::io_context::executor_type> work{context.get_executor()};
  std::thread thread{[this] { context.run(); }};
};

BlobLink::BlobLink(std::string socket)
    : socket_(std::move(socket)), thread_(std::make_unique<Thread>()) {}

BlobLink::~BlobLink() {
  thread_->context.stop();
  thread_->thread.join();
}

void BlobLink::find(const std::string& digits, Answered answered) {
  const json question = {{"verb", "find"}, {"digest", "sha256:" + digits}};
  std::make_shared<Call>(thread_->context, question, std::move(answered))->begin(socket_, {});
}

std::shared_ptr<BlobUpload> BlobLink::store(const std::string& digits, std::int64_t bytes,
                                            std::function<void()> ready, Answered answered) {
  const json question = {{"verb", "store"}, {"digest", "sha256:" + digits}, {"bytes", bytes}};
  auto call = std::make_shared<Call>(thread_->context, question, std::move(answered));
  call->begin(socket_, std::move(ready));
  return call;
}

}  // namespace holdfast::gateway
