#pragma once
// HTTP for the tenants of this bench: one request at a time on a persistent connection, from an
// address of choice, with the times of its answer.

#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace holdfast::bench {

/// An answer and its times.
struct Answer {
  int status = 0;  // 0: refused or cut before a whole head came
  std::string body;
  bool complete = false;  // ended as HTTP requires
  double first_ms = -1;   // to the first token of a stream; -1: none came
  double ms = 0;          // to its end
};

/// A request as bytes. With an empty key, no key is sent.
std::string request_text(const std::string& method, const std::string& path, const std::string& key,
                         const std::string& body = "",
                         const std::string& type = "application/json");
/// An upload for POST /v1/files: a small file for a batch, or a large one.
std::string upload_text(const std::string& key, const std::string& content);

/// A connection that opens at first use, and again after an answer that closed it. Not thread-safe.
class Connection {
 public:
  explicit Connection(int port, std::string from = "127.0.0.1")
      : port_(port), from_(std::move(from)) {}
  ~Connection() { close(); }
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&&) = delete;

  Answer ask(const std::string& request);
  /// The two halves of ask(). Where sending fails, read() gives status 0.
  void send(const std::string& request);
  Answer read();
  void close();

 private:
  bool silent() const;  // it is open and the other side has sent nothing
  bool open();
  bool fill();
  bool until(const std::string& mark, std::string* out);
  bool take(std::size_t bytes, Answer* answer);
  void look_for_token(Answer* answer);

  int port_;
  std::string from_;
  int fd_ = -1;
  std::string in_;
  std::int64_t sent_us_ = 0;
};

/// The concatenated `text` of a streamed completion.
std::string streamed_text(const std::string& body);

}  // namespace holdfast::bench
